// The tables of privacy: requests to erase or to export data.
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
})
