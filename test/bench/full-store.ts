// The store of a busy server after a month: emails with their recipients, texts, events and attempts, contacts,
// campaigns, metrics by receiver, and rows for the smaller pages. Written by plain SQL next to the running server.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { defineDigest } from '../../src/store/digests.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const MONTH = 30 * DAY
/** Emails that one transaction writes. */
const AT_ONCE = 20_000
const CONTACTS = 100_000
const CAMPAIGNS = 1000
const CONTACT_DOMAINS = 2000
/** Emails of the newest that still wait. */
const WAITING = 5000

export interface Filled {
  /** Cookies of users: the first is the operator, the others view the operator's account. */
  cookies: string[]
  /** Ids and an address, for the pages of one thing. */
  mail: string
  /** The campaign with a tenth of all emails. */
  campaign: string
  audience: string
  webhook: string
  inbox: string
  address: string
}

/** Receivers as in practice: half of the email goes to two of them. */
const domainOf = (k: string): string =>
  `case when ${k} % 100 < 34 then 'large.example' when ${k} % 100 < 52 then 'second.example' when ${k} % 100 < 60 then 'third.example' else 'd' || (${k} % ${CONTACT_DOMAINS}) || '.example' end`

/** Subjects with a separate number, and some that are the same for all recipients. */
const SUBJECT = `case
  when i % 100003 = 5 then 'A zeppelin for you'
  when i < {oldest} and i % 9 = 4 then 'Your xylophone lesson ' || i
  when i % 7 = 0 then 'Your order ' || (100000 + i) || ' has been shipped'
  when i % 7 = 1 then 'Invoice ' || (200000 + i) || ' for your subscription'
  when i % 7 = 2 then 'Reset your password'
  when i % 7 = 3 then 'Welcome to the shop'
  when i % 7 = 4 then 'New comment on ticket ' || (i / 3)
  when i % 7 = 5 then 'Reminder: your appointment on Tuesday at ' || (8 + i % 10) || ':30'
  else 'Your code is ' || (i * 7919 % 900000 + 100000) end`

export const numbers = (from: number, to: number): string =>
  `with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to - 1})`
export const uuid = (table: string, i: string): string =>
  `printf('${table}-%04x-7%03x-8%03x-%012x', ${i} >> 16 & 65535, ${i} & 4095, ${i} >> 8 & 4095, ${i})`

/** Fills the store of a server whose account is empty. */
export function fillStore(dataDir: string, mails: number, people: number): Filled {
  const database = new Database(join(dataDir, 'postrider.db'), { timeout: 60_000 })
  try {
    defineDigest(database)
    database.exec('pragma synchronous = off; pragma foreign_keys = on; pragma wal_autocheckpoint = 4000')
    return new Filling(database, mails).run(people)
  } finally {
    database.close()
  }
}

class Filling {
  readonly #database: Database.Database
  readonly #mails: number
  readonly #now = Date.now()
  readonly #user: number
  readonly #domain: number
  #other = 0

  constructor(database: Database.Database, mails: number) {
    this.#database = database
    this.#mails = mails
    const row = database.prepare('select key, user_key from domains').get() as { key: number; user_key: number }
    this.#user = row.user_key
    this.#domain = row.key
  }

  run(people: number): Filled {
    this.#domains()
    this.#campaigns()
    for (let from = 0; from < this.#mails; from += AT_ONCE) this.#some(from, Math.min(this.#mails, from + AT_ONCE))
    this.#figures()
    const webhook = this.#webhooks()
    const inbox = this.#inbound()
    this.#suppressions()
    const address = this.#text(`select address from deliveries order by key limit 1 offset ${this.#mails >> 1}`)
    return {
      cookies: this.#people(people),
      mail: this.#text(
        `select id from outbound_emails where campaign_key is null order by key limit 1 offset ${this.#mails >> 1}`,
      ),
      campaign: this.#text('select id from campaigns where key = 1'),
      audience: this.#text('select id from audiences where key = 1'),
      webhook,
      inbox,
      address,
    }
  }

  #text(sql: string): string {
    return this.#database.prepare(sql).pluck().get() as string
  }

  #exec(...statements: string[]): void {
    this.#database.exec(`begin immediate; ${statements.join(';')}; commit`)
  }

  #domains(): void {
    const { changes } = this.#database
      .prepare(
        `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled, click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, created_at, updated_at)
         select ${uuid('d0000000', 'value')}, user_key, 'brand' || value || '.example', purpose, region, mail_from_prefix, tls_policy, 0, 0, tracking_redirect_mode, 'failed', status_at, poll_from, created_at, updated_at
         from domains, json_each('[1,2,3,4,5,6,7,8,9,10]') where domains.key = ${this.#domain}`,
      )
      .run()
    if (changes !== 10) throw new Error('There is another domain already.')
    this.#other = this.#domain + 1
  }

  #campaigns(): void {
    const old = this.#now - MONTH
    const times = `${old}, ${old}`
    const step = Math.floor(MONTH / this.#mails)
    this.#exec(
      `${numbers(1, 21)} insert into audiences (key, id, user_key, domain_key, name, contacts_count, created_at, updated_at)
       select i, ${uuid('a0000000', 'i')}, ${this.#user}, ${this.#domain}, 'Readers ' || i, 0, ${times} from n`,
      `${numbers(1, CAMPAIGNS + 1)} insert into campaigns (key, id, user_key, domain_key, audience_key, name, subject, body_html, test_mode, opens_tracked, clicks_tracked, status, recipients, last_contact, walked_to, enqueued, require_unsubscribe_link, started_at, finished_at, created_at, updated_at)
       select i, ${uuid('c0000000', 'i')}, ${this.#user}, ${this.#domain}, 1, 'Newsletter ' || i, 'News of week ' || i, '<p>' || hex(zeroblob(3000)) || '</p>', 0, 1, 1, 'sent', iif(i = 1, ${Math.floor(this.#mails / 10)}, 200), ${CONTACTS}, ${CONTACTS}, 200, 0, at, ended, at - ${HOUR}, ended
       from (select i, at, iif(i = 1, at + ${MONTH / 10}, at + 1000 * ${step}) as ended
         from (select i, ${old} + cast(iif(i = 1, ${MONTH * 0.8}, (i - 2) * 1000 * ${step}) as integer) as at from n))`,
    )
    for (let from = 0; from < CONTACTS; from += AT_ONCE)
      this.#exec(
        `${numbers(from, from + AT_ONCE)} insert into contacts (key, id, user_key, audience_key, email, name, custom_fields, status, status_at, created_at, updated_at)
         select i + 1, ${uuid('b0000000', 'i')}, ${this.#user}, iif(i % 10 < 9, 1, 2 + i % 19), 'reader' || i || '@' || ${domainOf('i')}, 'Reader ' || i, '{"plan":"p' || (i % 7) || '"}',
           case when i % 50 = 0 then 'unsubscribed' when i % 50 = 1 then 'bounced' else 'subscribed' end, ${old}, ${old} + i, ${old} + i from n`,
      )
  }

  /** Emails `from` up to `to` with all that belongs to them, evenly over a month. */
  #some(from: number, to: number): void {
    const mails = this.#mails
    const step = MONTH / mails
    // The newest are queued. A tenth is one large campaign of three days ago. Of the rest a fifth are small campaigns.
    const large = `(i >= ${Math.floor(mails * 0.8)} and i < ${Math.floor(mails * 0.9)})`
    const campaign = `case when ${large} then 1 when i % 1000 < 200 then 2 + i / 1000 % ${CAMPAIGNS - 1} end`
    // As after the cleanup: days that have ended have one row for each receiver.
    const whole = Math.floor((this.#now - DAY) / DAY) * DAY
    const hour = `iif(at < ${whole}, at / ${DAY} * 24, at / ${HOUR})`
    const state = `case when i >= ${mails - Math.min(WAITING, mails >> 3)} then 'queued' when i % 1000 < 940 then 'delivered' when i % 1000 < 975 then 'bounced' when i % 1000 < 978 then 'complained' when i % 1000 < 990 then 'suppressed' else 'failed' end`
    this.#exec(
      `create temp table if not exists part (i integer primary key, at integer, state text, campaign integer, contact integer, domain text, address text, subject text, opened integer)`,
      `delete from part`,
      `${numbers(from, to)} insert into part (i, at, state, campaign, contact, domain, subject, opened)
       select i, ${this.#now - MONTH} + cast(i * ${step} as integer), ${state}, ${campaign}, iif(${large}, (i - ${Math.floor(mails * 0.8)}) % ${CONTACTS}, i * 7919 % ${CONTACTS}), '', ${SUBJECT.replace('{oldest}', String(Math.floor(mails / 10)))}, i % 10 < 3 from n`,
      `update part set domain = ${domainOf('contact')}`,
      `update part set address = 'reader' || contact || '@' || domain`,
      `insert into outbound_emails (key, id, user_key, domain_key, campaign_key, contact_key, "from", "to", subject, message_id, opens_tracked, clicks_tracked, status, queued_at, sent_at, delivered_at, bounced_at, first_opened_at, created_at, updated_at)
       select i + 1, ${uuid('e0000000', 'i')}, ${this.#user}, ${this.#domain}, campaign, iif(campaign is null, null, contact + 1), iif(campaign is null, 'Shop <hello@bench.example>', ''), address, iif(campaign is null, subject, ''), iif(campaign is null, '<' || ${uuid('e0000000', 'i')} || '@bench.example>', ''), 1, 1, state, at,
         iif(state in ('delivered', 'complained'), at + 900, null), iif(state in ('delivered', 'complained'), at + 1000, null), iif(state = 'bounced', at + 1000, null), iif(opened and state = 'delivered', at + 60000, null), at, at + 1000 from part`,
      `insert into outbound_bodies (email_key, content) select i + 1, '{"html":"<p>' || hex(zeroblob(400)) || '</p>","text":null}' from part where campaign is null`,
      `insert into deliveries (key, email_key, domain_key, role, address, lane, status, attempts, next_attempt_at, expires_at, smtp_code, enhanced_code, response, remote_mta, tls, dialogue, updated_at)
       select i + 1, i + 1, ${this.#domain}, 'to', address, iif(campaign is null, '', '~') || domain, state, 1, iif(state = 'queued', ${this.#now + 6 * HOUR} + i, null), at + ${5 * DAY},
         case state when 'delivered' then 250 when 'queued' then 451 when 'bounced' then 550 end, case state when 'delivered' then '2.0.0' when 'queued' then '4.7.1' when 'bounced' then '5.1.1' end,
         case state when 'delivered' then iif(campaign is null, '2.0.0 Ok: queued as ' || i, null) when 'queued' then 'Greylisted, try again later' when 'bounced' then 'No such user here' end, 'mx1.' || domain, 'TLSv1.3', iif(campaign is null, hex(zeroblob(250)), null), at + 1000 from part`,
      `insert into attempts (delivery_key, number, at, outcome, smtp_code, enhanced_code, response, remote_mta, tls)
       select i + 1, 1, at + 500, 'deferred', 451, '4.7.1', 'Greylisted, try again later', 'mx1.' || domain, 'TLSv1.3' from part where i % 20 = 0`,
      `insert into events (id, user_key, domain_key, email_key, campaign_key, type, data, created_at)
       select ${uuid('f0000000', 'i')}, ${this.#user}, ${this.#domain}, i + 1, campaign, 'email.' || state, '{"delivery":' || (i + 1) || '}', at + 1000 from part where campaign is null and state <> 'queued'`,
      `insert into events (id, user_key, domain_key, email_key, campaign_key, type, data, created_at)
       select ${uuid('f1000000', 'i')}, ${this.#user}, ${this.#domain}, i + 1, campaign, 'email.opened', '{"delivery":' || (i + 1) || ',"machine":' || iif(i % 30 = 0, 'true', 'false') || '}', at + 60000 from part where opened and state = 'delivered'`,
      `insert into event_cursors (reader, event_key) values ('webhooks', (select max(key) from events)) on conflict do update set event_key = excluded.event_key`,
      `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h)
       select ${this.#user}, domain, ${hour}, count(*) filter (where state = 'delivered'), count(*) filter (where i % 20 = 0), count(*) filter (where state in ('bounced', 'failed')), count(*) filter (where state = 'delivered'), 0, 0, 0
       from part where true group by domain, ${hour} on conflict do update set delivered = delivered + excluded.delivered, deferred = deferred + excluded.deferred, refused = refused + excluded.refused, within_5s = within_5s + excluded.within_5s`,
      `insert into outcome_hours (user_key, hour, delivered, deferred, refused)
       select ${this.#user}, at / ${HOUR}, count(*) filter (where state = 'delivered'), count(*) filter (where i % 20 = 0), count(*) filter (where state in ('bounced', 'failed'))
       from part where at < ${whole} group by at / ${HOUR} on conflict do update set delivered = delivered + excluded.delivered, deferred = deferred + excluded.deferred, refused = refused + excluded.refused`,
      `insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints)
       select ${this.#user}, ${this.#domain}, '', at / ${HOUR}, count(*) filter (where state = 'delivered'), count(*) filter (where state = 'bounced'), count(*) filter (where state = 'complained')
       from part where true group by at / ${HOUR} on conflict do update set deliveries = deliveries + excluded.deliveries, bounces = bounces + excluded.bounces, complaints = complaints + excluded.complaints`,
    )
  }

  #figures(): void {
    const today = Math.floor(this.#now / DAY)
    this.#exec(
      `${numbers(0, 400 * 30)} insert into refusals (user_key, receiver, day, words, times)
       select ${this.#user}, iif(i % 400 = 0, 'large.example', 'd' || (i % 400) || '.example'), ${today} - i / 400, '451 4.7.1 Greylisted, try again later', 1 + i % 40 from n`,
    )
  }

  /** Endpoints of a domain that does not send, so that the benchmark itself does not call them. */
  #webhooks(): string {
    this.#exec(
      `${numbers(1, 11)} insert into webhooks (key, id, user_key, domain_key, name, url, events, status, consecutive_failures, secret_hint, created_at, updated_at)
       select i, ${uuid('90000000', 'i')}, ${this.#user}, ${this.#other}, 'Hook ' || i, 'https://hooks.example/' || i, '["email.delivered"]', 'active', 0, 'abcd', ${this.#now - MONTH}, ${this.#now - MONTH} from n`,
      `${numbers(0, 50_000)} insert into outbound_webhooks (id, user_key, webhook_key, event, about, payload, status, attempts, response_status, response_body, created_at, updated_at)
       select ${uuid('91000000', 'i')}, ${this.#user}, 1 + i % 10, 'email.delivered', ${uuid('e0000000', 'i')}, '{"data":"' || hex(zeroblob(300)) || '"}', 'delivered', 1, 200, 'ok', ${this.#now - DAY} + i, ${this.#now - DAY} + i from n`,
    )
    return this.#text('select id from webhooks where key = 1')
  }

  #inbound(): string {
    const old = this.#now - MONTH
    this.#exec(
      `${numbers(1, 6)} insert into inboxes (key, id, user_key, domain_key, name, address, created_at, updated_at)
       select i, ${uuid('80000000', 'i')}, ${this.#user}, ${this.#domain}, 'Desk ' || i, 'desk' || i || '@bench.example', ${old}, ${old} from n`,
      `${numbers(0, 20_000)} insert into inbound_messages (key, id, mail_from, recipients, client, helo, received, size, content, cut, received_at, attempts)
       select i + 1, ${uuid('81000000', 'i')}, 'ann' || i || '@there.example', '["desk1@bench.example"]', '192.0.2.1', 'mx.there.example', 'from mx.there.example', 900, zeroblob(900), 0, ${old} + i, 1 from n`,
      `${numbers(0, 20_000)} insert into inbound_bodies (message_key, headers, text, html, attachments) select i + 1, '[]', 'Hello there', null, '[]' from n`,
      `${numbers(0, 20_000)} insert into inbound_emails (id, user_key, domain_key, inbox_key, message_key, status, sender, recipients, subject, "from", "to", cc, reply_to, message_id, "references", authentication, size, received_at, created_at, updated_at)
       select ${uuid('82000000', 'i')}, ${this.#user}, ${this.#domain}, 1 + i % 5, i + 1, 'received', 'ann' || i || '@there.example', '["desk1@bench.example"]', 'A question about order ' || i, 'ann' || i || '@there.example', '["desk1@bench.example"]', '[]', '[]', '<' || i || '@there.example>', '[]', '{}', 900, ${old} + i, ${old} + i, ${old} + i from n`,
    )
    return this.#text('select id from inboxes where key = 1')
  }

  #suppressions(): void {
    const old = this.#now - MONTH
    this.#exec(
      `${numbers(0, 20_000)} insert into suppressions (id, user_key, domain_key, email, reason, source, scope, strikes, created_at, updated_at)
       select ${uuid('70000000', 'i')}, ${this.#user}, ${this.#domain}, 'gone' || i || '@d' || (i % 2000) || '.example', 'hard_bounce', 'smtp', 'all', 0, ${old} + i, ${old} + i from n`,
    )
  }

  /** The operator and others, each signed in. Their cookies. */
  #people(count: number): string[] {
    const [id] = [this.#text(`select id from users where key = ${this.#user}`)]
    return Array.from({ length: count }, (_, index) => {
      const of = `person${index}`
      if (index > 0)
        this.#database
          .prepare(
            `insert into users (id, email, name, plan, subscription_state, created_at, updated_at, summary, operator)
             select ?, ?, ?, plan, subscription_state, created_at, updated_at, summary, 0 from users where id = ?`,
          )
          .run(of, `${of}@bench.example`, of, id)
      this.#database
        .prepare(
          `insert or ignore into members (id, user_key, member_key, role, joined_at, created_at, updated_at)
           select id, ?, key, 'reader', created_at, created_at, updated_at from users where id = ?`,
        )
        .run(this.#user, of)
      const secret = `${of}-secret`
      this.#database
        .prepare(
          `insert into sessions (id, hash, user_key, program, created_at, seen_at)
           select ?, ?, key, 'bench', ?, ? from users where id = ?`,
        )
        .run(`session-${of}`, createHash('sha256').update(secret).digest(), this.#now, this.#now, index === 0 ? id : of)
      return `postrider_session=${secret}; postrider_browser=${of}`
    })
  }
}
