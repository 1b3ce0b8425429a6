// Sign-up forms and contact forms as a part of the server.
import { Hono, type Context } from 'hono'
import type { AppDeps } from '../http/app-deps.ts'
import { part } from '../parts/part.ts'
import { textsFor } from '../recipients/languages.ts'
import { formVersions, forms } from './api.ts'
import { contactConfirmations, signups } from './api-signups.ts'
import { CONFIRM_PATH, confirmRoutes } from './confirm-pages.ts'
import { accountFindings } from './findings.ts'
import { forgetSignups } from './forget.ts'
import { formBySlug, isAvailable } from './forms.ts'
import { formLanguage, formPage, FORMS_PATH, noFormPage } from './hosted.ts'
import { formPlaces } from './page.ts'
import { signupRoutes } from './public.ts'
import { formFigures } from './signup-counts.ts'
import { SignupLoop } from './signup-loop.ts'
import { sealFormToken } from './tokens.ts'
import { currentTexts } from './versions.ts'

/** GET of a hosted form, which changes nothing. */
const hostedRoutes = (deps: AppDeps): Hono =>
  new Hono().get(`${FORMS_PATH}/:slug`, (context) => {
    const form = formBySlug(deps.store, context.req.param('slug'))
    if (!form || !isAvailable(form)) return noFormPage(context, form, textsFor(context, { audience: form?.language }))
    const texts = currentTexts(deps.store, form)
    return formPage(context, deps, form, {
      texts,
      language: formLanguage(context, texts),
      token: sealFormToken(deps.keyring, form, deps.clock.now()),
    })
  })

const notAllowed = (context: Context): Response =>
  context.text('This page does not support the method. Use GET or POST.\n', 405, { Allow: 'GET, HEAD, POST' })

export const formsPart = part<AppDeps>('forms', {
  resources: [forms, formVersions, signups, contactConfirmations],
  pages: formPlaces,
  accountFindings,
  menu: [
    {
      group: 'Newsletters',
      rank: 2.5,
      path: '/forms',
      key: 'f',
      name: 'Forms',
      icon: 'forms',
      scope: 'contacts',
    },
  ],
  figures: formFigures,
  routes: (deps) =>
    new Hono()
      .route('/', hostedRoutes(deps))
      .route('/', signupRoutes(deps))
      .route('/', confirmRoutes(deps))
      .all(`${FORMS_PATH}/:slug`, notAllowed)
      .all(CONFIRM_PATH, notAllowed),
  loops: (deps) => [new SignupLoop({ ...deps, ring: deps.queueChanged })],
  forget: { first: forgetSignups },
})
