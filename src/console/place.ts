// What a place of the console is: its address, what it shows, and what its forms do.
import { refuse } from '../base/errors.ts'
import { isNameIn } from '../base/one-of.ts'
import type { Answer, Visit } from './visit.ts'

/** What a person has sent with a form. */
export class Form {
  readonly #data: FormData

  constructor(data: FormData) {
    this.#data = data
  }

  get action(): string {
    return this.get('action')
  }

  /** A field as text, '' when it is not there. */
  get(name: string): string {
    const value = this.#data.get(name)
    return typeof value === 'string' ? value.replaceAll('\r\n', '\n') : ''
  }

  all(name: string): string[] {
    return this.#data.getAll(name).filter((value) => typeof value === 'string')
  }

  file(name: string): File | undefined {
    const value = this.#data.get(name)
    return value !== null && typeof value !== 'string' && value.size > 0 ? value : undefined
  }

  /** Every text field but our own, for a form that has to be sent again. */
  entries(): [string, string][] {
    return [...this.#data].filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string' && entry[0] !== 'proof',
    )
  }
}

type Shown = Response | Promise<Response>

export interface Place {
  path: string
  /** To others than operators it is as if there were nothing. */
  operator?: true
  show: (visit: Visit) => Shown
  act?: (visit: Visit, form: Form) => Shown
}

/**
 * What is said after something was done; the address holds only its name, so that a link from elsewhere cannot show a
 * text of its own.
 */
export const DONE = {
  saved: 'Saved.',
  added: 'Added.',
  removed: 'Removed.',
  copied: 'This is the copy, a draft.',
  sent: 'It is on its way.',
  started: 'The campaign is scheduled.',
  moved: 'Done.',
  checked: 'DNS was asked just now.',
  asked: 'It is noted, and done in the background.',
  ended: 'Ended.',
} as const

export const done = (visit: Visit): string | undefined => {
  const name = visit.query('done')
  return isNameIn(DONE, name) ? DONE[name] : undefined
}

/** Leads on after something was done, so that a reload does not do it again. */
export function lead(visit: Visit, to: string, what: keyof typeof DONE): Response {
  return visit.context.redirect(`${to}${to.includes('?') ? '&' : '?'}done=${what}`, 303)
}

/** The one thing that a page is about. Throws 404, as for another account's. */
export function found<T extends Answer>(answer: T): T & { one: NonNullable<Answer['one']> } {
  if (answer.status === 403) throw refuse('insufficient_scope', answer.errors[0]?.detail ?? 'You may not see this.')
  if (answer.one === undefined) throw refuse('not_found', 'There is nothing here.')
  return answer as T & { one: NonNullable<Answer['one']> }
}
