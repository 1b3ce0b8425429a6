// A place of the console: its address, its page, and the actions of its forms.
import { refuse } from '../base/errors.ts'
import { isNameIn } from '../base/one-of.ts'
import type { Answer, Visit } from './visit.ts'

/** The data of a submitted form. */
export class Form {
  readonly #data: FormData

  constructor(data: FormData) {
    this.#data = data
  }

  get action(): string {
    return this.get('action')
  }

  /** A field as text; '' when it is missing. */
  get(name: string): string {
    const value = this.#data.get(name)
    return typeof value === 'string' ? value.replaceAll('\r\n', '\n') : ''
  }

  has(name: string): boolean {
    return this.#data.has(name)
  }

  all(name: string): string[] {
    return this.#data.getAll(name).filter((value) => typeof value === 'string')
  }

  file(name: string): File | undefined {
    const value = this.#data.get(name)
    return value !== null && typeof value !== 'string' && value.size > 0 ? value : undefined
  }

  /** The files that were chosen, empty ones too. */
  files(name: string): File[] {
    return this.#data
      .getAll(name)
      .filter((value): value is File => typeof value !== 'string' && (value.size > 0 || value.name !== ''))
  }

  /** Every text field except the console's own fields, for a form that has to be sent again. */
  entries(): [string, string][] {
    return [...this.#data].filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string' && entry[0] !== 'proof',
    )
  }
}

type ShownPage = Response | Promise<Response>

export interface Place {
  path: string
  /** For operators only; other people get 404, as if the place did not exist. */
  operator?: true
  /** The page only changes something: it is not shown to who may only read. */
  changes?: true
  show: (visit: Visit) => ShownPage
  act?: (visit: Visit, form: Form) => ShownPage
  /** What a form's question says more about what was typed, where no script asks it. */
  also?: (form: Form) => string
}

/**
 * The sentences that confirm an action after which the session is a new one, or that a script leads to; `visit.say` is
 * for all others. The URL holds only the name of a sentence, so that a link from another site cannot show its own text.
 */
export const DONE = {
  passkey: 'Your passkey is added. Sign in with it from now on.',
  password: 'Your password is set. Your other sessions have ended.',
} as const

export const done = (visit: Visit): string | undefined => {
  const name = visit.query('done')
  return isNameIn(DONE, name) ? DONE[name] : visit.said
}

/** Redirects after an action, so that a reload does not repeat it. */
export function lead(visit: Visit, to: string, what: keyof typeof DONE): Response {
  return visit.context.redirect(`${to}${to.includes('?') ? '&' : '?'}done=${what}`, 303)
}

/** The resource that a page shows. Throws 404 when there is none, or it belongs to another account. */
export function found<T extends Answer>(answer: T): T & { one: NonNullable<T['one']> } {
  if (answer.status === 403) throw refuse('insufficient_scope', answer.errors[0]?.detail ?? 'You may not see this.')
  if (answer.one === undefined) throw refuse('not_found', 'There is nothing here.')
  return answer as T & { one: NonNullable<T['one']> }
}

/** The ETag in a form; what is malformed fits no version. */
export const tagIn = (given: Form): string => (/^"[!#-~]+"$/.test(given.get('tag')) ? given.get('tag') : '""')
