// The limit of an email's size, and the error of an email that would exceed it (docs/interface.md, "Limits").

import { TOO_LARGE_CODE } from '../base/errors.ts'

/** A message must have fewer bytes than this once it is encoded. */
export const MAX_MESSAGE = 40 * 1024 * 1024

/** A link, and a subject, must have fewer characters than this once their merge tags are filled in. */
export const MAX_LINK = 1024 * 1024
export const MAX_SUBJECT = 128 * 1024

/** The sentence for the owner of an email, the reason of its recipient's status. */
export const TOO_LARGE =
  'The email would have 40 MB or more, a subject of 128 KB or a link of 1 MB once its merge tags are filled in and it is encoded.'

/** An email would have MAX_MESSAGE bytes or more. Thrown before that much memory is used. */
export class TooLarge extends Error {
  readonly code = TOO_LARGE_CODE

  constructor() {
    super(TOO_LARGE)
  }
}
