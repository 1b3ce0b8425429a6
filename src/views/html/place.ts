// A page of the console: its path, its content, and the actions of its forms.
import { refuse } from '../../base/errors.ts'
import { isNameIn } from '../../base/one-of.ts'
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

  /** A field as text, or '' if it is missing. */
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

  /** The chosen files, including empty ones. */
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
  /** For operators only. Other users get 404, as if the page did not exist. */
  operator?: true
  /** The page only changes data, so it is not shown to users who can only read. */
  changes?: true
  show: (visit: Visit) => ShownPage
  act?: (visit: Visit, form: Form) => ShownPage
  /** An addition to a form's question about the typed values, for browsers without scripts. */
  also?: (form: Form) => string
}

/**
 * The sentences that confirm an action after which the session is a new one, or that a script leads to. `visit.say` is
 * for all others. The URL has only the name of a sentence, so that a link from another site cannot show its own text.
 */
export const DONE = {
  passkey: 'Passkey added. You can now sign in with it.',
  password: 'Password set. Your other sessions were signed out.',
} as const

export const done = (visit: Visit): string | undefined => {
  const name = visit.query('done')
  return isNameIn(DONE, name) ? DONE[name] : visit.said
}

/** Redirects after an action, so that a reload does not repeat it. */
export function lead(visit: Visit, to: string, what: keyof typeof DONE): Response {
  return visit.context.redirect(`${to}${to.includes('?') ? '&' : '?'}done=${what}`, 303)
}

/** The resource that a page shows. Throws 404 if it does not exist or belongs to another account. */
export function found<T extends Answer>(answer: T): T & { one: NonNullable<T['one']> } {
  if (answer.status === 403)
    throw refuse('insufficient_scope', answer.errors[0]?.detail ?? 'You do not have access to this page.')
  if (answer.one === undefined) throw refuse('not_found', 'Page not found.')
  return answer as T & { one: NonNullable<T['one']> }
}

/** The ETag in a form. A malformed one becomes "", which matches no version. */
export const tagIn = (given: Form): string => (/^"[!#-~]+"$/.test(given.get('tag')) ? given.get('tag') : '""')
