// The fields in which people prove who they are, and codes of the second factor: six digits, or a recovery code.
import { html } from 'hono/html'
import { proofOf, refusedProof } from '../identity/own-proof.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { clientAddress } from '../net/client-address.ts'
import { field } from '../webui/forms.ts'
import type { Form } from '../webui/place.ts'
import type { Visit } from '../webui/visit.ts'
import type { Html } from '../webui/widgets.ts'

interface CodeFields {
  name: string
  id?: string
  label: string
  error?: string | undefined
  /** An error of the recovery code: its field stays open. */
  recoveryError?: string | undefined
}

/** A field for the six digits, which phones type by a pad of digits, and one for a recovery code, which has letters. */
export const codeFields = ({ error, id, label, name, recoveryError }: CodeFields): Html =>
  html`${field({ name, label, error, autocomplete: 'one-time-code', digits: true, ...(id === undefined ? {} : { id }) })}
    <details ${recoveryError === undefined ? '' : html`open`}>
      <summary>Without your device</summary>
      ${field({ name: 'recovery', id: `${id ?? name}-recovery`, label: 'One of your recovery codes', autocomplete: 'off', error: recoveryError })}
    </details>`

/** The field for the proof of who the person is; an error stands here when no field can bear it. */
export function proofField({ person }: Visit, id: string, error: string | undefined): Html {
  const kind = proofOf(person.user)
  if (kind === 'fresh') return error === undefined ? html`` : html`<p class="bad" role="alert">${error}</p>`
  return kind === 'password'
    ? field({
        name: 'old',
        id,
        label: 'Your present password',
        type: 'password',
        autocomplete: 'current-password',
        error,
      })
    : codeFields({ name: 'old', id, label: 'Code of your authenticator app', error })
}

/** Why a change is refused that takes a proof; undefined when the person has proven who they are. */
export const refusal = (
  deps: ApiDeps,
  { context, person }: Visit,
  given: Form,
  fresh: boolean,
): Promise<string | undefined> =>
  refusedProof(deps, {
    ...person,
    client: clientAddress(context, deps.config.http),
    given: given.get('old') || given.get('recovery'),
    fresh,
  })
