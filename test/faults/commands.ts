// Commands under faults, in this process: backup next to a running server, and restore.
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { control, files, ROOT } from './layer.ts'
import { open } from './demands.ts'
import type { Scenario } from './scenarios.ts'
import type { Stage } from './stage.ts'
import { Syncs } from './kills.ts'
import { main } from '../../src/cli/main.ts'

interface Ran {
  code: number
  said: string
}

/** One command line on a data directory. */
async function command(dataDir: string, ...argv: string[]): Promise<Ran> {
  let said = ''
  const streams = [process.stdout, process.stderr].map((stream) => ({ stream, write: stream.write.bind(stream) }))
  process.env['POSTRIDER_DATA_DIR'] = dataDir
  for (const { stream } of streams)
    stream.write = (chunk: string | Uint8Array) => {
      said += chunk.toString()
      return true
    }
  try {
    return { code: await main([process.execPath, 'postrider', '--json', ...argv]), said }
  } finally {
    for (const { stream, write } of streams) {
      stream.write = write
      stream.removeAllListeners('error')
    }
    process.exitCode = undefined
  }
}

let places = 0
const folder = (): string => join(ROOT, `place-${++places}`)

/** Removing failed as well, so that the leftovers are not its bug. */
const couldNotClean = (): boolean => control.struck.some((call) => /^(?:rm|unlink)/.test(call))

/** A command that failed prints one sentence, without a stack. */
const sentence = ({ code, said }: Ran): string[] =>
  // With --json the same error is on stdout as a document.
  code !== 0 && !/^postrider: [^\n]+\n(?:\{"error":[^\n]+\n)?$/.test(said)
    ? [`it failed without a sentence: ${said.slice(0, 300)}`]
    : []

const unsynced = (syncs: Syncs, below: string): string[] =>
  [...syncs.copy()].flatMap(([path, { content, entry }]) =>
    path.startsWith(below) && (!content || !entry) && existsSync(path)
      ? [
          `${content ? 'the name of ' : ''}${path.slice(below.length + 1).replace(/[0-9a-f-]{30,}/, 'ID') || 'it'} is not synced`,
        ]
      : [],
  )

/** Restores a backup into a new directory and verifies it. */
async function soundIn(zip: string): Promise<string[]> {
  const place = folder()
  const restored = await command(place, 'restore', zip, '--without-ledger')
  if (restored.code !== 0) return [`a backup that was reported done cannot be restored: ${restored.said}`]
  const verified = await command(place, 'verify')
  return verified.code === 0 ? [] : [`what was restored is not sound: ${verified.said}`]
}

async function sentMail(stage: Stage): Promise<void> {
  if (stage.rows('select 1 from outbound_bodies where spool is not null').length > 0) return
  await stage.post({ html: `<p>${'large '.repeat(50_000)}</p>` })
  await stage.settle(() => open(stage))
  stage.newLedger()
}

interface Backup {
  place: string
  zip: string
  ran: Ran
  syncs: Syncs
}

const backup: Scenario<Backup> = {
  name: 'backup',
  async prepare(stage) {
    await sentMail(stage)
    const place = folder()
    mkdirSync(place)
    return { place, zip: join(place, 'backup.zip'), ran: { code: -1, said: '' }, syncs: new Syncs() }
  },
  async act(stage, ready) {
    files.witness = (call, path, to) => ready.syncs.see(call, path, to)
    ready.ran = await command(stage.dataDir, 'backup', ready.zip)
    files.witness = undefined
  },
  async wrong(_, { place, ran, zip }) {
    const said = sentence(ran)
    const names = readdirSync(place)
    if (ran.code !== 0)
      return [
        ...said,
        ...(couldNotClean() ? [] : names).map((name) => `a backup that failed left ${name.replace(/-\w{6}$/, '-X')}`),
      ]
    if (names.join() !== 'backup.zip') said.push(`a backup left ${names.join(', ')}`)
    return [...said, ...(await soundIn(zip))]
  },
}

interface Restore {
  zip: string
  place: string
  ran: Ran
  syncs: Syncs
}

const restore: Scenario<Restore> = {
  name: 'restore',
  async prepare(stage) {
    await sentMail(stage)
    const zip = `${folder()}.zip`
    const made = await command(stage.dataDir, 'backup', zip)
    if (made.code !== 0) throw new Error(made.said)
    return { zip, place: folder(), ran: { code: -1, said: '' }, syncs: new Syncs() }
  },
  async act(_, ready) {
    files.witness = (call, path, to) => ready.syncs.see(call, path, to)
    ready.ran = await command(ready.place, 'restore', ready.zip, '--without-ledger')
    files.witness = undefined
  },
  async wrong(_, { place, ran, zip }) {
    const said = sentence(ran)
    // In a separate process its lock would end with it.
    if (ran.code !== 0 && couldNotClean()) return said
    if (ran.code !== 0) {
      if (existsSync(join(place, 'postrider.db'))) said.push('a restore that failed left a database')
      const again = await command(place, 'restore', zip, '--without-ledger')
      if (again.code !== 0) return [...said, `after a restore that failed it cannot be repeated: ${again.said}`]
    }
    const verified = await command(place, 'verify')
    return verified.code === 0 ? said : [...said, `what was restored is not sound: ${verified.said}`]
  },
}

/** Work that was reported as done is on the disk, and survives a power cut right afterwards. */
const lasting = (scenario: Scenario<Backup> | Scenario<Restore>): Scenario =>
  ({
    ...scenario,
    name: `${scenario.name} is on the disk`,
    once: true,
    wrong: (_: Stage, { place, syncs }: Backup | Restore) => unsynced(syncs, place),
  }) as Scenario

export const COMMANDS: readonly Scenario[] = [
  { ...backup, unkilled: true } as Scenario,
  { ...restore, unkilled: true } as Scenario,
  lasting(backup),
  lasting(restore),
]
