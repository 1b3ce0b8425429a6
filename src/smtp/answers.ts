// The answers of the listener to a client, in the form that the library smtp-server expects.
import { localTrouble } from '../base/local-trouble.ts'

/** A refusal: 550 and "5.1.1 No such mailbox". A text without an enhanced code gets the library's. */
export interface SmtpRefusal {
  code: number
  text: string
}

const asError = ({ code, text }: SmtpRefusal): Error => Object.assign(new Error(text), { responseCode: code })

/**
 * Looks up the owner of a password and gives smtp-server the answer through `done`. An internal error goes to `hear`,
 * and the client gets a temporary refusal (RFC 4954 §4). Never throws.
 */
export async function signIn(
  done: (error: Error | null, answer?: { user: object }) => void,
  hear: (thrown: unknown) => void,
  question: () => Promise<{ who: unknown } | SmtpRefusal>,
): Promise<void> {
  let answer: { who: unknown } | SmtpRefusal
  try {
    answer = await question()
  } catch (thrown) {
    hear(thrown)
    answer = { code: 454, text: '4.7.0 Internal error; try again later' }
  }
  if ('who' in answer) done(null, { user: answer })
  else done(asError(answer))
}

/**
 * Decides about a sender, a recipient or a message and gives smtp-server the answer through `done`. An internal error
 * goes to `hear`, and the client gets 451, or 452 when the disk is full (RFC 5321 §4.2.3). Never throws.
 */
export function judge(
  done: (error?: Error | null, text?: string) => void,
  hear: (thrown: unknown) => void,
  question: () => Promise<SmtpRefusal | { accepted: string } | undefined> | SmtpRefusal | undefined,
): void {
  const answer = (judged: SmtpRefusal | { accepted: string } | undefined): void => {
    if (judged === undefined) done(null)
    else if ('accepted' in judged) done(null, judged.accepted)
    else done(asError(judged))
  }
  const fault = (thrown: unknown): void => {
    hear(thrown)
    answer(
      localTrouble(thrown) === 'full'
        ? { code: 452, text: '4.3.1 Out of storage; try again later' }
        : { code: 451, text: '4.3.0 Internal error; try again later' },
    )
  }
  try {
    const result = question()
    if (result instanceof Promise) result.then(answer, fault)
    else answer(result)
  } catch (thrown) {
    fault(thrown)
  }
}
