// A simulated power failure under mixed load: the server is killed, and unsynced data is removed from its files
// (rig/power.ts). All accepted emails exist after the next start. POSTRIDER_POWER_CUTS sets the number of rounds.
import assert from 'node:assert/strict'
import { fork, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Promised, Work } from '../crash/ledger.ts'
import { seeded } from '../kit/seeded.ts'
import { becomes, Machine } from './rig/machine.ts'
import { withPrograms } from './rig/need.ts'
import { cutPower, namesIn, TRACE, unsynced } from './rig/power.ts'

const CUTS = Number(process.env['POSTRIDER_POWER_CUTS'] ?? 5)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** A round lasts until so many promises were given, drawn again each time. */
const MOST = 60

withPrograms('a power failure', spawnSync('strace', ['-V']).status === 0 ? [] : ['strace'], () => {
  test(`after ${CUTS} power failures under load, every accepted email exists and the data is consistent`, async (t) => {
    const copies = new Map<string, number>()
    const machine = await Machine.make({
      script: {
        final: (mail) => {
          copies.set(mail.to[0]!, (copies.get(mail.to[0]!) ?? 0) + 1)
          mail.message = ''
          return undefined
        },
      },
    })
    const random = seeded(SEED)
    const file = join(machine.folder, 'ledger')
    const trace = join(machine.folder, 'trace')
    const witness = fork(fileURLToPath(new URL('../crash/ledger.ts', import.meta.url)), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const given = new Map<number, number>()
    let ended = -1
    witness.on('message', (said: { promised?: number; ended?: number }) => {
      if (said.promised !== undefined) given.set(said.promised, (given.get(said.promised) ?? 0) + 1)
      ended = said.ended ?? ended
    })
    const lost = { writes: 0, names: 0 }
    try {
      for (let round = 0; round < CUTS; round++) {
        const before = namesIn(machine.dataDir)
        const server = machine.begin(['strace', ...TRACE, '-o', trace])
        assert.ok(await server.ready(60_000), server.said)
        const work: Work = {
          url: server.url,
          smtp: server.smtp,
          token: machine.token,
          file,
          from: ['me@here.test'],
          to: ['there.test'],
          round,
        }
        witness.send(work)
        const enough = 1 + Math.floor(random() * MOST)
        await becomes(() => (given.get(round) ?? 0) >= enough, `${enough} promises`, 120_000)
        // Anywhere between two commits, or in the middle of one.
        await pause(random() * 30)
        process.kill(server.pid, 'SIGKILL')
        witness.send('gone')
        await server.ended
        await becomes(() => ended === round, 'the end of the round', 60_000)
        const taken = cutPower(machine.dataDir, unsynced(readFileSync(trace, 'utf8'), machine.dataDir, before))
        lost.writes += taken.writes
        lost.names += taken.names
        const verified = await machine.run('verify')
        assert.equal(verified.code, 0, verified.stdout + verified.stderr)
      }
      const server = await machine.start()
      const promised = readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Promised)
      const posts = promised.filter(({ kind }) => kind === 'post').map(({ name }) => name)
      await becomes(() => posts.every((to) => copies.has(to)), 'every mail that was promised', 60_000)
      const messages = promised.filter(({ kind }) => kind === 'message').map(({ name }) => name)
      const inBox = async (): Promise<string[]> => {
        const found: string[] = []
        for (let cursor = ''; ;) {
          const page = `page[size]=100${cursor && `&page[cursor]=${encodeURIComponent(cursor)}`}`
          const { body } = await machine.api(server, 'GET', `/inbound-emails?${page}`)
          found.push(
            ...(body.data as { attributes: { subject: string } }[]).map(({ attributes }) => attributes.subject),
          )
          if (!body.meta.has_more) return found
          cursor = body.meta.next_cursor
        }
      }
      let last: string[] = []
      await becomes(
        async () => {
          last = await inBox()
          return messages.every((name) => last.includes(name))
        },
        'every message that was promised',
        60_000,
      )
      assert.equal(new Set(last).size, last.length, 'each once')
      assert.equal(await server.kill('SIGTERM'), 0)
      assert.equal((await machine.run('verify')).code, 0)
      t.diagnostic(
        `${CUTS} cuts (seed ${SEED}): ${posts.length} mails and ${messages.length} messages promised, 0 lost; ${lost.writes} writes and ${lost.names} names were not synced and taken away`,
      )
    } finally {
      witness.disconnect()
      await machine.close()
    }
  })
})
