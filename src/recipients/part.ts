// The pages and emails for recipients as a part of the server.
import { Hono } from 'hono'
import type { ApiDeps } from '../jsonapi/define.ts'
import { part } from '../parts/part.ts'
import { answerDepsOf, type AnswerParts } from '../privacy/api-recipient-requests.ts'
import { tellRecipient } from './answers.ts'
import { createDataPage } from './data-page.ts'
import { forgetCounted } from './limits.ts'
import { createSubscriberPage } from './subscriber-page.ts'

export const recipientsPart = part<ApiDeps & AnswerParts>('recipients', {
  routes: (deps) =>
    new Hono()
      .route('/', createSubscriberPage({ ...deps, ring: deps.bells.deliveries }))
      .route('/', createDataPage({ ...answerDepsOf(deps), bodies: deps.bodies })),
  tellRecipient,
  hourly: ({ store }, now) => forgetCounted(store, now),
})
