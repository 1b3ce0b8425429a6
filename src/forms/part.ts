// Sign-up forms and contact forms as a part of the server.
import { Hono } from 'hono'
import type { AppDeps } from '../http/app-deps.ts'
import { part } from '../parts/part.ts'
import { textsFor } from '../recipients/languages.ts'
import { formVersions, forms } from './api.ts'
import { contactConfirmations, signups } from './api-signups.ts'
import { confirmRoutes } from './confirm-pages.ts'
import { forgetSignups } from './forget.ts'
import { formBySlug, isAvailable } from './forms.ts'
import { formLanguage, formPage, FORMS_PATH, noFormPage } from './hosted.ts'
import { formPlaces } from './page.ts'
import { signupRoutes } from './public.ts'
import { formFigures } from './signup-counts.ts'
import { SignupLoop } from './signup-loop.ts'
import { sealFormToken } from './signup-token.ts'
import { currentTexts } from './versions.ts'

/** GET of a hosted form, which changes nothing. */
const hostedRoutes = (deps: AppDeps): Hono =>
  new Hono().get(`${FORMS_PATH}/:slug`, (context) => {
    const form = formBySlug(deps.store, context.req.param('slug'))
    if (!form || !isAvailable(deps.store, form))
      return noFormPage(context, form, textsFor(context, { audience: form?.language }))
    const texts = currentTexts(deps.store, form)
    return formPage(context, deps, form, {
      texts,
      language: formLanguage(context, texts),
      token: sealFormToken(deps.keyring, form, deps.clock.now()),
    })
  })

export const formsPart = part<AppDeps>('forms', {
  resources: [forms, formVersions, signups, contactConfirmations],
  pages: formPlaces,
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
    new Hono().route('/', hostedRoutes(deps)).route('/', signupRoutes(deps)).route('/', confirmRoutes(deps)),
  loops: (deps) => [new SignupLoop({ ...deps, ring: deps.queueChanged })],
  forget: { first: forgetSignups },
})
