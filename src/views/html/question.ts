// The confirmation page of a form for browsers without scripts. Its answer sends the form.
import { html } from 'hono/html'
import { form } from './forms.ts'
import { page } from './frame.ts'
import type { Form } from './place.ts'
import type { Visit } from './visit.ts'

const OWN = new Set(['action', 'sure', 'question'])

export function questionPage(visit: Visit, given: Form, question: string, more = ''): Promise<Response> {
  const fields = given.entries().filter(([name]) => !OWN.has(name))
  return page(visit, {
    title: 'Are you sure?',
    body: html`<p>${question}</p>
      <p>${more}</p>
      ${form(
        visit,
        given.action,
        html`${fields.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}<input
            type="hidden"
            name="sure"
            value="yes"
          /><button>Continue</button>`,
      )}
      <p><a href="${visit.context.req.path}">Go back</a></p>`,
  })
}
