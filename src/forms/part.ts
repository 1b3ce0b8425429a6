// Sign-up forms and contact forms as a part of the server.
import { Hono } from 'hono'
import type { ApiDeps } from '../jsonapi/define.ts'
import { part } from '../parts/part.ts'
import { textsFor } from '../recipients/languages.ts'
import { formVersions, forms } from './api.ts'
import { formBySlug, isAvailable } from './forms.ts'
import { formLanguage, formPage, FORMS_PATH, noFormPage } from './hosted.ts'
import { sealFormToken } from './signup-token.ts'
import { currentTexts } from './versions.ts'

/** GET of a hosted form, which changes nothing. */
const hostedRoutes = (deps: ApiDeps): Hono =>
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

export const formsPart = part<ApiDeps>('forms', {
  resources: [forms, formVersions],
  routes: hostedRoutes,
})
