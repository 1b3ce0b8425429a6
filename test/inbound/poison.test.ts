// Messages that try to block the readers end alone, are marked and keep their bytes, and other messages get their real
// verdicts in the meantime. Problems of the machine do not end messages (D72).
import assert from 'node:assert/strict'
import { OPEN_GATE } from '../../src/parts/gate.ts'
import { NO_REPORTS } from '../../src/parts/received.ts'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { parseConfig } from '../../src/base/config.ts'
import { codeOf } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/log.ts'
import { Pool } from '../../src/base/threads/pool.ts'
import { Troubles } from '../../src/base/trouble.ts'
import { InboundEngine, type StoredAs } from '../../src/inbound/reading.ts'
import type { InboundMessage } from '../../src/inbound/queue.ts'
import type { InboundJob, InboundResult } from '../../src/inbound/reader.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { Spool } from '../../src/store/spool.ts'
import { HEADER_BOMBS } from '../hostile/bombs.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { within } from './threads.ts'

let inbox: number
let user: number

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  const { user_key: owner } = await postrider.activeDomain('here.test')
  const { body } = await postrider.api(
    'POST',
    '/inboxes',
    document('inboxes', { name: 'Box', address: 'box@here.test' }),
  )
  const found = postrider.appliance.deps.store.first(
    raw<{ key: number }>('select key from inboxes where id = ?', [body.data.id]),
  )
  inbox = found!.key
  user = owner
})

const listed = async (): Promise<{ id: string; attributes: { subject: string; authentication: unknown } }[]> =>
  (await postrider.api('GET', '/inbound-emails')).body.data

test('three headers of 85,000 folds are marked, and other messages get their real verdicts at the same time', async () => {
  postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
  postrider.dns.set('_dmarc.there.test', 'TXT', ['v=DMARC1; p=reject'])
  const [smtp] = postrider.appliance.smtp
  await within(20_000, async () => {
    for (let n = 0; n < 3; n++)
      await deliver(smtp!, { to: 'box@here.test', message: HEADER_BOMBS['From of folds']!(255_000) })
    await deliver(smtp!, { to: 'box@here.test' })
    const honest = await until(async () => (await listed()).find(({ attributes }) => attributes.subject === 'Hello'))
    assert.deepEqual(honest.attributes.authentication, { spf: 'pass', dkim: 'none', dmarc: 'pass', arc: 'none' })
  })
  const bombs = await until(async () => {
    const others = (await listed()).filter(({ attributes }) => attributes.subject !== 'Hello')
    return others.length === 3 ? others : undefined
  }, 'all of them')
  for (const { attributes, id } of bombs) {
    assert.deepEqual(attributes.authentication, { spf: 'pass', dkim: 'none', dmarc: 'permerror', arc: 'none' })
    const text = String((await postrider.api('GET', `/inbound-emails/${id}/raw`)).body)
    assert.match(text, /dmarc=permerror \(From over 64 KB\)/)
    assert.ok(text.length > 250_000, 'every octet is kept')
  }
})

describe('the engine', () => {
  let dataDir: string
  let store: Store
  let spool: Spool
  let clock: ManualClock
  let engine: InboundEngine | undefined
  const pools: Pool<InboundJob, InboundResult>[] = []

  beforeEach(() => {
    const { deps } = postrider.appliance
    dataDir = temporaryDirectory('poison')
    writeFileSync(join(dataDir, 'postrider.db'), deps.store.octets())
    store = openStore(dataDir)
    store.all(raw('delete from inbound_emails returning key'))
    store.all(raw('delete from inbound_messages returning key'))
    spool = new Spool(join(dataDir, 'spool'))
    clock = new ManualClock()
  })
  afterEach(async () => {
    const stopped = engine?.stop(1000)
    engine = undefined
    await Promise.all(pools.splice(0).map((pool) => pool.close()))
    await stopped
    store.close()
  })

  let count = 0
  function put(
    text: string | null,
    { attempts = 0, client = '192.0.2.1', file = null as string | null, size = 10 } = {},
  ): string {
    const id = `message-${++count}`
    store.all(
      raw(
        `insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, content, spool, cut, received_at, attempts)
         values (?, 'ann@there.test', ?, ?, 'there.test', '', ?, ?, ?, 0, ?, 0) returning key`,
        [
          id,
          JSON.stringify([{ kind: 'inbox', address: 'box@here.test', inboxes: [inbox] }]),
          client,
          size,
          text === null ? null : Buffer.from(text),
          file,
          clock.now(),
        ],
      ),
    )
    store.all(
      raw(`insert into inbound_waiting select key, ?, ? from inbound_messages where id = ? returning message_key`, [
        attempts,
        clock.now(),
        id,
      ]),
    )
    return id
  }
  async function start(
    source = 'poisoned.ts',
    answer?: (ask: unknown) => Promise<unknown>,
    through = store,
    budget = 300,
  ): Promise<void> {
    const workers = new Pool<InboundJob, InboundResult>(new URL(source, import.meta.url), {
      size: 1,
      heapMb: 24,
      ...(answer && { answer }),
    })
    pools.push(workers)
    const { keyring } = postrider.appliance.deps
    const troubles = new Troubles({ clock, log: silentLog })
    const config = parseConfig({ hostname: 'mx.postrider.test', data_dir: postrider.dataDir })
    engine = new InboundEngine({
      store: through,
      spool,
      clock,
      keyring,
      log: silentLog,
      config,
      troubles,
      workers,
      reports: NO_REPORTS,
      budget,
      gate: OPEN_GATE,
    })
    await engine.start()
  }
  /** Hands a message over from memory, as its reception does. */
  function hand(id: string, place: StoredAs): void {
    const [attempts, at] = [place === 'claimed' ? 1 : 0, clock.now() + 3_600_000]
    store.all(
      raw(
        `update inbound_waiting set attempts = ?, next_attempt_at = ?
         where message_key = (select key from inbound_messages where id = ?) returning message_key`,
        [attempts, at, id],
      ),
    )
    const row = store.first(raw<InboundMessage>('select * from inbound_messages where id = ?', [id]))
    engine!.take({ ...row!, attempts }, place)
  }
  const rowOf = (id: string) =>
    store.first(
      raw<{ attempts: number; next_attempt_at: number }>(
        'select w.* from inbound_waiting w join inbound_messages m on m.key = w.message_key where m.id = ?',
        [id],
      ),
    )
  const emailOf = (id: string) =>
    store.first(
      raw<{ status: string; reason: string | null; authentication: string }>(
        'select e.* from inbound_emails e join inbound_messages m on m.key = e.message_key where m.id = ?',
        [id],
      ),
    )
  const read = (id: string) => until(() => emailOf(id), `${id} read`)
  const waits = (id: string) =>
    until(() => rowOf(id)!.attempts === 0 && rowOf(id)!.next_attempt_at! > clock.now(), `${id} waiting`)

  test('rejects a message that kills its reader after two attempts, and receives the others', async () => {
    const poison = put('read dies')
    const honest = Array.from({ length: 5 }, () => put('hello'))
    await start()
    for (const id of honest) assert.equal((await read(id)).status, 'received')
    assert.deepEqual(
      [(await read(poison)).status, (await read(poison)).reason],
      ['parse_rejected', 'It cannot be read.'],
    )
    assert.equal(JSON.parse((await read(poison)).authentication).dmarc, 'pass')
  })

  test('receives and marks a message that kills the evaluation or makes it throw, with its real SPF result', async () => {
    const ids = [put('judge dies'), put('judge throws')]
    const honest = put('hello')
    await start()
    for (const id of ids) {
      const { authentication, status } = await read(id)
      assert.equal(status, 'received')
      assert.deepEqual(JSON.parse(authentication), { spf: 'pass', dkim: 'temperror', dmarc: 'temperror', arc: 'none' })
    }
    assert.equal(JSON.parse((await read(honest)).authentication).dkim, 'pass')
  })

  test('messages that use unlimited CPU time do not delay others', async () => {
    const poison = Array.from({ length: 2 }, () => put('read burns'))
    await start()
    await until(() => rowOf(poison[0]!)!.attempts === 1)
    const honest = Array.from({ length: 5 }, () => put('hello'))
    engine!.ring()
    for (const id of honest) assert.equal((await read(id)).status, 'received')
    for (const id of poison) assert.equal((await read(id)).reason, 'Reading it took too long.')
  })

  test('messages that wait for DNS do not delay others', async () => {
    for (let n = 0; n < 32; n++) put('judge asks for ever', { client: `192.0.2.${n % 4}` })
    let asked = 0
    await start('poisoned.ts', () => new Promise(() => void asked++))
    await until(() => asked === 32, 'a full window')
    // A message that is handed over from memory while every slot is used has its turn a second later.
    const honest = put('hello', { client: '192.0.2.9' })
    hand(honest, 'claimed')
    await until(() => clock.nextAlarm !== null && clock.nextAlarm <= clock.now() + 1000, 'a wait of a second')
    clock.advance(1000)
    clock.advance(1000)
    assert.equal((await read(honest)).status, 'received')
  })

  test('messages are handed over from memory: claimed, leased, or due beyond its bounds (D133)', async () => {
    const asked: (() => void)[] = []
    await start('poisoned.ts', () => new Promise<string>((resolve) => asked.push(() => resolve(''))))
    const sql: string[] = []
    store.watch((text) => void (/inbound_(?:messages|waiting)/.test(text) && sql.push(text)))
    const ids: string[] = []
    const places: string[] = []
    for (let n = 0; n < 30; n++) {
      const id = put('read asks')
      ids.push(id)
      const place = engine!.storageFor('192.0.2.1')
      places.push(place)
      hand(id, place)
    }
    assert.deepEqual(places, [...Array(24).fill('claimed'), ...Array(6).fill('leased')])
    sql.length = 0
    await until(() => {
      for (const answer of asked.splice(0)) answer()
      return ids.every(emailOf)
    }, 'all of them read')
    const own = sql.filter((text) => !/where (?:m\.)?id = \?/.test(text))
    assert.deepEqual([...new Set(own.map((text) => text.split(' ').slice(0, 2).join(' ')))].sort(), [
      'delete from',
      'update inbound_waiting',
    ])
    assert.ok(
      own.every((text) => !text.includes('inbound_messages')),
      'no message is read from the database, and none is written again',
    )
  })

  test('a client with many messages does not delay other clients', async () => {
    const asked: string[] = []
    for (let n = 0; n < 100; n++) put(`judge asks of the crowd`)
    const other = put('judge asks of the other', { client: '192.0.2.2' })
    await start('poisoned.ts', async (label) => {
      asked.push(String(label))
      return String(label).includes('other') ? '' : new Promise(() => {})
    })
    assert.equal((await read(other)).status, 'received')
    await until(
      () => asked.filter((request) => request.includes('crowd')).length === 8,
      'eight of the crowd in readers',
    )
  })

  test('reads a message that waits for others of its client as soon as they end', async () => {
    const ids = Array.from({ length: 100 }, () => put('judge asks of the crowd'))
    const answers: (() => void)[] = []
    await start('poisoned.ts', () => new Promise<string>((resolve) => answers.push(() => resolve(''))))
    // Time moves only while the engine sleeps for a second: ten minutes never pass.
    const second = (): void => {
      if (clock.nextAlarm !== null && clock.nextAlarm <= clock.now() + 1000) clock.advance(1000)
    }
    await until(() => {
      second()
      return answers.length === 64
    }, '64 in hand')
    second()
    assert.equal(answers.length, 64, 'the others wait')
    await until(() => {
      for (const answer of answers.splice(0)) answer()
      second()
      return ids.every(emailOf)
    }, 'all of them read')
  })

  test('a message waits while its file is missing, and is read when the file is back', async () => {
    const file = await spool.put('file', 'Subject: here again\r\n\r\nHello.\r\n')
    renameSync(spool.path(file), join(dataDir, 'away'))
    const id = put(null, { file })
    await start('../../src/inbound/reader.ts')
    await waits(id)
    assert.equal(rowOf(id)!.next_attempt_at, clock.now() + 10_000)
    clock.advance(10_000)
    await until(() => rowOf(id)!.next_attempt_at === clock.now() + 20_000, 'twice as long')
    renameSync(join(dataDir, 'away'), spool.path(file))
    clock.advance(20_000)
    assert.equal((await read(id)).status, 'received')
  })

  test('a message waits if no thread can be started', async () => {
    const id = put('hello')
    await start('no-such-reader.ts')
    await waits(id)
    assert.equal(emailOf(id), undefined)
  })

  test('results that cannot be written are kept and written later, and no message is claimed until then', async () => {
    const pages = (limit: number) => store.all(raw(`pragma max_page_count = ${limit}`))
    const asked: (() => void)[] = []
    // Its text needs separate pages.
    const id = put(`read asks ${'x'.repeat(100_000)}`)
    await start('poisoned.ts', () => new Promise<string>((resolve) => asked.push(() => resolve(''))))
    await until(() => asked.length === 1)
    const other = put('hello')
    pages(1)
    for (let full = false; !full;)
      await store
        .write(
          (tx) =>
            void tx.run(
              raw(`insert into notices (id, user_key, subject, text, mailed, created_at) values (?, ?, 'x', ?, 1, 0)`, [
                `filler-${++count}`,
                user,
                'x'.repeat(2000),
              ]),
            ),
        )
        .catch((thrown: unknown) => {
          assert.equal(codeOf(thrown), 'SQLITE_FULL')
          full = true
        })
    asked[0]!()
    await until(() => clock.nextAlarm !== null, 'a nap')
    engine!.ring()
    // A claim would need no page, and be written by now.
    await store.writeSoon(() => undefined)
    assert.deepEqual([emailOf(id), rowOf(other)!.attempts], [undefined, 0])
    pages(1_000_000)
    clock.advance(10_000)
    assert.equal((await read(id)).status, 'received')
    assert.equal((await read(other)).status, 'received')
  })

  test('a message that fills the heap is read again alone, even after a restart, and then kept unread (D139)', async () => {
    const other = put('hello')
    const [poison, later] = [put('read fills'), put('read fills, judge fills')]
    // On a busy machine, filling the heap takes more CPU time than the other tests allow.
    const startPatient = () => start('poisoned.ts', undefined, store, 60_000)
    await startPatient()
    assert.equal((await read(other)).status, 'received')
    const reason = 'Reading it takes more memory than the server may use.'
    for (const id of [poison, later]) {
      const { authentication, reason: said, status } = await read(id)
      assert.deepEqual([status, said, rowOf(id)], ['parse_rejected', reason, undefined])
      assert.equal(JSON.parse(authentication).dkim, id === poison ? 'pass' : 'temperror')
    }
    const again = put('read fills', { attempts: 1, size: 2_000_000 })
    await engine!.stop(1000)
    await startPatient()
    assert.equal((await read(again)).reason, reason)
  })

  test('messages claimed by ended processes are read alone, small ones ten times, large ones twice (D139)', async () => {
    const suspects = Array.from({ length: 3 }, () => put('read asks', { attempts: 1, size: 2_000_000 }))
    const given = [put('hello', { attempts: 10 }), put('hello', { attempts: 2, size: 2_000_000 })]
    const fresh = put('hello')
    const asked: (() => void)[] = []
    await start('poisoned.ts', () => new Promise<string>((resolve) => asked.push(() => resolve(''))))
    for (let n = 0; n < suspects.length; n++) {
      await until(() => {
        if (asked.length <= n) clock.advance(1000)
        return asked.length === n + 1
      }, 'the next suspect')
      clock.advance(1000)
      assert.equal(
        store.all(raw('select message_key from inbound_waiting where next_attempt_at > ?', [clock.now()])).length,
        1,
      )
      if (n === 0) assert.equal(rowOf(fresh)!.attempts, 0, 'not even claimed')
      asked[n]!()
      // The others have their turn between two of them.
      assert.equal((await read(fresh)).status, 'received')
    }
    for (const id of suspects) assert.equal((await read(id)).status, 'received')
    for (const id of given) {
      await until(() => {
        clock.advance(1000)
        return emailOf(id)
      })
      assert.equal((await read(id)).reason, 'The server ended each time while it read it.')
    }
  })

  test('other messages have their turn between two suspects (D139)', async () => {
    const suspects = Array.from({ length: 2 }, () => put('read asks', { attempts: 1, size: 2_000_000 }))
    const fresh = put('hello')
    const claimed = Promise.withResolvers<undefined>()
    // The claim of the fresh one is written, and its answer comes after the end of the suspect.
    const slow = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        const method = value.bind(target) as (...given: unknown[]) => unknown
        if (name !== 'writeSoon') return method
        return async (...given: unknown[]) => {
          const result = (await method(...given)) as { named?: unknown[] } | undefined
          if (result?.named?.length) await claimed.promise
          return result
        }
      },
    })
    const asked: (() => void)[] = []
    await start('poisoned.ts', () => new Promise<string>((resolve) => asked.push(() => resolve(''))), slow)
    await until(() => asked.length === 1, 'the first suspect')
    asked[0]!()
    await until(() => suspects.some(emailOf) && rowOf(fresh)!.attempts === 1, 'its end, and the claim of the other')
    // The engine hears of the end after it is written.
    await store.writeSoon(() => undefined)
    await new Promise((resolve) => setImmediate(resolve))
    claimed.resolve(undefined)
    assert.equal((await read(fresh)).status, 'received')
    assert.equal(asked.length, 1, 'no second suspect before')
  })

  test('a message that was not read counts no attempt after a stop, and the others are retried (D133)', async () => {
    const ids = Array.from({ length: 12 }, () => put('read asks'))
    let asked = 0
    await start('poisoned.ts', () => new Promise(() => void asked++))
    await until(() => asked === 8 && ids.every((id) => rowOf(id)!.attempts === 1), 'eight in readers, four claimed')
    const stopped = engine!.stop(1000)
    engine = undefined
    await Promise.all(pools.splice(0).map((pool) => pool.close()))
    await stopped
    assert.deepEqual(
      ids.map((id) => rowOf(id)!.attempts),
      ids.map(() => 0),
    )
    await start()
    for (const id of ids) assert.equal((await read(id)).status, 'received')
  })

  test('the suspect with the fewest attempts is read first', async () => {
    const [often, seldom] = [put('hello', { attempts: 9 }), put('hello', { attempts: 1 })]
    await start()
    await Promise.all([read(often!), read(seldom!)])
    const order = store
      .all(
        raw<{ id: string }>(
          'select m.id from inbound_emails e join inbound_messages m on m.key = e.message_key order by e.key desc limit 2',
        ),
      )
      .map(({ id }) => id)
    assert.deepEqual(order, [often, seldom])
  })
})
