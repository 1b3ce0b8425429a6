// Erases an address from a recipient of an email. The row stays, so that statistics stay correct.
import type { Tx } from '../store/database.ts'
import { names, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

/** The columns of a recipient that may contain personal data. */
export interface NamedDelivery {
  key: number
  role: string
  address: string
  status: string
  response: string | null
  dialogue: string | null
  remote_mta: string | null
}

/**
 * `whole`: the SMTP transcript is deleted even if it does not contain the address, because the email is to this person.
 */
export function forgetInDelivery(tx: Tx, erasing: Erasing, delivery: NamedDelivery, whole: boolean): void {
  tx.run(
    raw('update deliveries set address = ?, response = ?, remote_mta = ?, dialogue = ? where key = ?', [
      redact(delivery.address, erasing),
      delivery.response && redact(delivery.response, erasing),
      delivery.remote_mta && redact(delivery.remote_mta, erasing),
      whole || names(delivery.dialogue, erasing.address) ? null : delivery.dialogue,
      delivery.key,
    ]),
  )
}
