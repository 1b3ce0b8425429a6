// The tables of domains: sending domains, their keys and records.
import { DOMAIN_STATUSES } from '../states/domain.ts'
import { blob, due, flag, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const OURS = 'a domain of the account, or what we publish for it'

export const domainsTables = tablesOf('domains', {
  domains: {
    digest: 8,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** A-label, lower case. */
      name: text({ digested: true, nobody: OURS }),
      purpose: oneOf(['transactional', 'marketing', 'both']),
      region: text({ undigested: 'a word of the configuration', nobody: 'a word of the configuration' }),
      mail_from_prefix: text({ digested: true, nobody: OURS }),
      tls_policy: oneOf(['Require', 'Optional'], { digested: true }),
      open_tracking_enabled: flag(),
      click_tracking_enabled: flag(),
      tracking_redirect_mode: oneOf(['shared', 'branded'], { digested: true }),
      status: oneOf(DOMAIN_STATUSES),
      status_at: time({ ahead: 'past' }),
      /** The start of the polling schedule (D20). */
      poll_from: time({ ahead: 'past' }),
      /** The time since which an active domain lacks a required record. */
      missing_since: time({ null: true, ahead: 'past' }),
      checked_at: time({ null: true }),
      next_check_at: due({ null: true, ahead: 'wait' }),
      /** The MTA-STS policy for mail to the domain, and the time of its last change (null if it never had a policy). */
      sts_mode: oneOf(['none', 'testing', 'enforce']),
      sts_changed_at: time({ null: true }),
      /** The policy that its DMARC record should publish. */
      dmarc_policy: oneOf(['none', 'quarantine', 'reject']),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  dkim_keys: {
    digest: 9,
    columns: {
      key: key(),
      id: id(),
      domain_key: integer({ digested: true }),
      selector: text({ digested: true, nobody: OURS }),
      /** Base64 of the SPKI, as in `p=`. */
      public_key: text({ digested: true, nobody: OURS }),
      /** PKCS #8 PEM, encrypted with the instance key. Null once erased. */
      sealed_private_key: blob({ null: true, digested: true }),
      role: oneOf(['signing', 'standby', 'retired']),
      /** The last time that the key was seen in DNS. */
      verified_at: time({ null: true }),
      /** The time since which the key's record is missing in DNS. Null if it exists, or was never seen. */
      missed_at: time({ null: true, ahead: 'past' }),
      erase_at: due({ null: true, harmless: 'a key is kept longer' }),
      created_at: time(),
    },
  },
  records: {
    digest: 10,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer({ digested: true }),
      record_type: oneOf(['DKIM', 'SPF', 'MAIL_FROM_MX', 'DMARC', 'INBOUND_MX', 'TRACKING'], { digested: true }),
      name: text({ digested: true, nobody: OURS }),
      value: text({ digested: true, nobody: OURS }),
      ttl: integer(),
      required: flag(),
      verified: flag(),
      /** May contain addresses of users (rua in DMARC). */
      observed: text({ null: true, undigested: 'what DNS said', person: 'mark' }),
      checked_at: time({ null: true }),
      /** Of TRACKING: links may use the host until then. Null if the host has no certificate, or does not answer. */
      certificate_until: due({ null: true, harmless: 'the end of a certificate' }),
      /** Of SPF and MX: the record is in DNS, and the host that it names has no address. */
      missing_address: flag(),
      created_at: time(),
      updated_at: time(),
    },
  },
})
