// The tables of privacy: requests to erase or to export data, by the account and by recipients.
import { blob, due, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

export const privacyTables = tablesOf('privacy', {
  privacy_requests: {
    digest: 22,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      /** The signed-in user who asked for an export. Null for a token. */
      requester_key: integer({ null: true }),
      kind: oneOf(['erasure', 'export'], { digested: true }),
      /** Hex HMAC-SHA-256 of the normalised address. */
      recipient_hash: text({ digested: true, nobody: 'a hash' }),
      /** The address, encrypted with the instance key, while the request is open. */
      sealed_recipient: blob({ null: true, digested: true }),
      status: oneOf(['pending', 'done', 'failed']),
      /** The file of an export's bundle, in the directory `exports` of the data directory. */
      file: text({
        null: true,
        undigested: 'the name of a file that we made',
        nobody: 'the name of a file that we made',
      }),
      requested_at: time(),
      finished_at: time({ null: true }),
      next_attempt_at: due({ null: true, ahead: 'wait' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Requests that recipients made on their own page. The account answers them. */
  recipient_requests: {
    undigested: 'a record of what was asked; the request that carries it out has a digest',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** The sending domain that answers. */
      domain_key: integer(),
      kind: oneOf(['export', 'erasure']),
      /** The recipient, until the answer is sent. */
      email: text({ null: true, person: 'mark', held: true }),
      /** Hex HMAC-SHA-256 of the normalised address. */
      recipient_hash: text({ nobody: 'a hash' }),
      /** The language of the page on which it was made. */
      language: text({ nobody: 'a language' }),
      state: oneOf(['open', 'done', 'declined']),
      /** Why it was declined, as the recipient was told. */
      reason: text({ null: true, person: 'mark', held: true }),
      due_at: due({ harmless: 'a deadline of the law' }),
      answered_at: time({ null: true, ahead: 'past' }),
      /** When the answer was emailed to the recipient. Null: not yet, or it could not be. */
      emailed_at: time({ null: true, ahead: 'past' }),
      /** The request that carries it out: a key of privacy_requests. */
      request_key: integer({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
})
