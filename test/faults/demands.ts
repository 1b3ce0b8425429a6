// The requirements after everything has become idle: accepted work is done once, no work is stuck, and reports are
// true.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stage } from './stage.ts'

const OPEN: readonly [label: string, sql: string][] = [
  [
    'delivery',
    `select 'delivery ' || status || ' attempts ' || attempts || ', due in ' || coalesce((next_attempt_at - NOW) / 1000, 'never') || ' s, leased for ' || coalesce((leased_until - NOW) / 1000, 0) || ' s' as what from deliveries where status in ('queued', 'active')`,
  ],
  [
    'webhook',
    `select 'webhook delivery ' || status || ' attempts ' || attempts as what from outbound_webhooks where status in ('pending', 'active')`,
  ],
  [
    'inbound',
    `select 'unread message, attempts ' || attempts || ', due in ' || ((next_attempt_at - NOW) / 1000) || ' s' as what from inbound_waiting`,
  ],
  ['campaign', `select 'campaign ' || status as what from campaigns where status in ('scheduled', 'sending')`],
  ['privacy', `select kind || ' pending' as what from privacy_requests where status = 'pending'`],
  [
    'event',
    `select 'event not fanned out' as what from events e join domains d on d.key = e.domain_key
     where d.name = 'told.test' and e.key > (select coalesce(max(event_key), 0) from event_cursors) limit 1`,
  ],
]

/** Work that is not finished yet. */
export function open(stage: Stage): string[] {
  const left = OPEN.flatMap(([, sql]) =>
    stage.rows<{ what: string }>(sql.replaceAll('NOW', String(stage.clock.now()))).map(({ what }) => what),
  )
  for (const { promised, to } of stage.ledger.posted)
    if (promised && stage.world.copies(to).length === 0) left.push('a mail that was promised was not heard')
  for (const { promised, subject } of stage.ledger.delivered)
    if (promised && received(stage, subject).length === 0) left.push('a message that was promised is in no inbox')
  return left
}

interface Received {
  status: string
  reason: string | null
  authentication: string
}

const received = (stage: Stage, subject: string): Received[] =>
  stage.rows<Received>('select status, reason, authentication from inbound_emails where subject = ?', [subject])

const idOf = (message: string): string | undefined => /^Message-ID:\s+(<.*>)\r$/m.exec(message)?.[1]

/**
 * The problems at the end. `doubt`: a connection was cut after a final dot, or the process was killed before the
 * acceptance was on the disk. A process that has to stop while it cannot write logs the emails with an unknown result.
 */
export function wrong(stage: Stage, doubt: (to: string) => boolean = () => false): string[] {
  const said: string[] = [...stage.ledger.lies]
  for (const { promised, refused, to } of stage.ledger.posted) {
    const copies = stage.world.copies(to)
    const named = stage.givenUp.some((line) => copies.some(({ message }) => line.includes(idOf(message)!)))
    // A rejected recipient has not received the email, so a retry is not a duplicate.
    if (!refused && copies.length > 1 + Number(named || doubt(to))) said.push(`a mail was heard ${copies.length} times`)
    if (new Set(copies.map(({ message }) => idOf(message))).size > 1)
      said.push('a mail came again under another Message-ID')
    const rows = stage.rows<{ status: string; response: string | null; email: string }>(
      'select v.status, v.response, e.status as email from deliveries v join outbound_emails e on e.key = v.email_key where v.address = ?',
      [to],
    )
    if (promised && rows.length !== 1) said.push(`a promised mail has ${rows.length} rows`)
    for (const { email, response, status } of rows) {
      if (status !== (refused ? 'bounced' : 'delivered')) said.push(`a mail ended ${status}: ${response}`)
      if (email !== status) said.push(`the mail says ${email}, its delivery ${status}`)
      if (response?.includes(stage.dataDir)) said.push(`a path is shown to the customer: ${response}`)
    }
  }
  for (const { promised, subject } of stage.ledger.delivered) {
    const rows = received(stage, subject)
    if (rows.length > 1) said.push(`a message stands ${rows.length} times in its inbox`)
    if (promised)
      for (const { reason, status } of rows)
        if (status !== 'received') said.push(`a promised message is ${status}: ${reason}`)
    const events = stage.rows<{ n: number }>(
      `select count(*) as n from events where type = 'inbound_email.received' and json_extract(data, '$.subject') = ?`,
      [subject],
    )
    if (events[0]!.n > rows.length) said.push(`a message was told ${events[0]!.n} times`)
  }
  said.push(...damaged(stage))
  return said
}

/** Files and rows that do not match, and the result of SQLite's check. */
export function damaged(stage: Stage): string[] {
  const spool = join(stage.dataDir, 'spool')
  const bodies = stage.rows<{ spool: string }>(BODIES)
  const messages = stage.rows<{ spool: string }>('select spool from inbound_messages where spool is not null')
  const named = [...bodies.flatMap((row) => JSON.parse(row.spool) as string[]), ...messages.map((row) => row.spool)]
  const said = named.filter((name) => !existsSync(join(spool, name))).map(() => 'a file of the spool is missing')
  const [check] = stage.rows<{ integrity_check: string }>('pragma integrity_check')
  if (check?.integrity_check !== 'ok') said.push(`integrity: ${check?.integrity_check}`)
  if (stage.rows('pragma foreign_key_check').length > 0) said.push('rows refer to rows that do not exist')
  return said
}

/** The lists of files of bodies, and of those that batches share. */
const BODIES = `select spool from outbound_bodies where spool is not null
  union all select spool from outbound_batches where spool is not null`

/** After a start: spool files without a row. */
export function strays(stage: Stage): string[] {
  const spool = join(stage.dataDir, 'spool')
  const owned = new Set([
    ...stage.rows<{ spool: string }>(BODIES).flatMap((row) => JSON.parse(row.spool) as string[]),
    ...stage
      .rows<{ spool: string }>('select spool from inbound_messages where spool is not null')
      .map((row) => row.spool),
    'quarantine',
  ])
  const names = existsSync(spool) ? readdirSync(spool) : []
  return names
    .filter((name) => !owned.has(name))
    .map((name) => `a file in the spool that nobody names: ${name.replace(/^[0-9a-f-]{36}/, 'ID')}`)
}

/** Files of the data directory that contain the text. */
export function saying(dataDir: string, text: string): string[] {
  const names = readdirSync(dataDir, { recursive: true, withFileTypes: true })
  return names
    .filter((entry) => entry.isFile() && readFileSync(join(entry.parentPath, entry.name)).includes(text))
    .map((entry) => entry.name)
}
