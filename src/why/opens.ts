// Opens of a receiver's readers against those of all others: the only hint at what becomes of mail that was delivered.
import { DAY } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { WhyRow } from './evidence.ts'
import { receiverOf, type WhySubject } from './subject.ts'

/** Delivered mails whose opens are tracked that are looked at, the newest; this takes some 50 ms. */
const LOOKED_AT = 10_000
/** Fewer mails on a side say nothing (D162). */
const LEAST = 100
/** A share of opens below this part of that of the others is worth a word. */
const FEW = 0.5

interface OpenCount {
  lane: string
  remote_mta: string | null
  mails: number
  opened: number
}

function countsOf(reader: Reader, { accounts, since }: WhySubject): OpenCount[] {
  return accounts.flatMap((account) =>
    reader.all(
      raw<OpenCount>(
        `select v.lane, v.remote_mta, count(*) as mails, count(e.first_opened_at) as opened
         from (select key, first_opened_at, opens_tracked from outbound_emails
               where user_key = ? and status = 'delivered' and created_at >= ? order by created_at desc limit ${LOOKED_AT}) e
           join deliveries v on v.email_key = e.key
         where e.opens_tracked = 1 and v.role = 'to' group by v.lane, v.remote_mta`,
        [account, since],
      ),
    ),
  )
}

/** A row for each receiver of the subject whose readers open much less; `off` where opens are not tracked. */
export function openRows(reader: Reader, subject: WhySubject): WhyRow[] | 'off' {
  const counts = countsOf(reader, subject)
  if (counts.length === 0) return 'off'
  return subject.receivers.flatMap((receiver) => {
    const sum = (mine: boolean): { mails: number; opened: number } =>
      counts
        .filter((each) => (receiverOf(each) === receiver) === mine)
        .reduce((all, { mails, opened }) => ({ mails: all.mails + mails, opened: all.opened + opened }), {
          mails: 0,
          opened: 0,
        })
    const [here, elsewhere] = [sum(true), sum(false)]
    if (here.mails < LEAST || elsewhere.mails < LEAST) return []
    const [share, others] = [here.opened / here.mails, elsewhere.opened / elsewhere.mails]
    if (share >= others * FEW) return []
    const percent = (part: number): string => `${(part * 100).toFixed(1)}%`
    const text = `Opened at ${receiver}: ${percent(share)} of ${here.mails} delivered mails; elsewhere ${percent(others)} of ${elsewhere.mails}`
    return [
      { at: subject.now - (subject.now % DAY), fact: 'few', text, href: `/receivers/${encodeURIComponent(receiver)}` },
    ]
  })
}
