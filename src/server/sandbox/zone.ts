// The contents of the sandbox's DNS: the records that its domains need, as if their owner had published each at once,
// and the built-in MX host for all other domains, which also send from this machine.
import { toAscii } from '../../message/address.ts'
import type { Store } from '../../store/database.ts'
import { db } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import type { Zone } from './dns.ts'

const LOOPBACK = '127.0.0.1'
const EXCHANGER = 'mx.sandbox.example'
const TYPES: Record<RowOf<'records'>['record_type'], string> = {
  DKIM: 'TXT',
  SPF: 'TXT',
  DMARC: 'TXT',
  MAIL_FROM_MX: 'MX',
  INBOUND_MX: 'MX',
  TRACKING: 'CNAME',
}

/** `store` is called at each lookup. Until it is open, only the MX host resolves. */
export function sandboxZone(store: () => Store | undefined): Zone {
  return {
    lookUp(name, type) {
      if (toAscii(name.replaceAll('_', 'x')) === undefined) return undefined
      const asked =
        store()?.all(db.selectFrom('records').select(['record_type', 'value']).where('name', '=', name)) ?? []
      const published = asked.filter((record) => TYPES[record.record_type] === type).map(({ value }) => value)
      if (published.length > 0) return [...new Set(published)]
      if (type === 'A') return [LOOPBACK]
      if (type === 'TXT' && asked.length === 0 && !name.startsWith('_')) return [`v=spf1 ip4:${LOOPBACK} -all`]
      if (type === 'MX' && !name.startsWith('_')) return [`10 ${EXCHANGER}`]
      return []
    },
  }
}
