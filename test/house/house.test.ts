import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, normalize, relative } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ENTRIES } from '../../packaging/bundle.ts'
import { version } from '../../src/base/version.ts'
import { TABLES } from '../../src/store/schema/tables.ts'
import { LOG_EVENTS } from '../../src/base/log-events.ts'

// The structure of the sources, checked by reading them. Each list of exceptions contains their reasons. An unused
// exception fails, too.

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const SRC = join(ROOT, 'src')

interface Source {
  /** Path below src/. */
  file: string
  folder: string
  text: string
  /** The text with comments blanked out, line numbers kept. */
  code: string
  imports: { target: string; typeOnly: boolean }[]
}

/** Comments on their own lines or after code. A "//" inside a string is part of a URL and has ":" before it. */
function withoutComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ' '))
    .replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1')
}

function importsOf(code: string): Source['imports'] {
  const found: Source['imports'] = []
  for (const [, clause, target] of code.matchAll(/^\s*(?:import|export)\b([^'"`;]*?)\bfrom\s*['"]([^'"]+)['"]/gm)) {
    const names =
      /\{([^}]*)\}/
        .exec(clause!)?.[1]
        ?.split(',')
        .filter((name) => name.trim() !== '') ?? []
    const braced = /^\s*\{[^}]*\}\s*$/.test(clause!)
    const typeOnly =
      /^\s*type\b(?!\s*,)/.test(clause!) ||
      (braced && names.length > 0 && names.every((name) => /^\s*type\s/.test(name)))
    found.push({ target: target!, typeOnly })
  }
  for (const [, target] of code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm))
    found.push({ target: target!, typeOnly: false })
  for (const [, how, target] of code.matchAll(
    /(typeof\s+)?\b(?:import|require(?:\([^()]*\))?)\(\s*['"]([^'"]+)['"]\s*\)/g,
  ))
    found.push({ target: target!, typeOnly: how !== undefined })
  // createRequire(import.meta.url)('node:sea') and modules that are started as a worker.
  for (const [, target] of code.matchAll(/createRequire\(import\.meta\.url\)\(\s*'([^']+)'\s*\)/g))
    found.push({ target: target!, typeOnly: false })
  for (const [, target] of code.matchAll(/new URL\(\s*'([^']+\.ts)',\s*import\.meta\.url/g))
    found.push({ target: target!, typeOnly: false })
  return found
}

const sources: Source[] = readdirSync(SRC, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => {
    const path = join(entry.parentPath, entry.name)
    const file = relative(SRC, path)
    const text = readFileSync(path, 'utf8')
    const code = withoutComments(text)
    return { file, folder: file.split('/')[0]!, text, code, imports: importsOf(code) }
  })

function assertNone(faults: readonly string[]): void {
  assert.ok(faults.length === 0, `\n${faults.join('\n')}`)
}

/** Imports of other files of src/, as paths below src/. */
const internal = ({ file, imports }: Source): string[] =>
  imports.filter(({ target }) => target.startsWith('.')).map(({ target }) => normalize(join(dirname(file), target)))

/** Packages and builtins, "hono" for "hono/html", "node:dns" for "node:dns/promises". */
const external = ({ imports }: Source): { name: string; typeOnly: boolean }[] =>
  imports
    .filter(({ target }) => !target.startsWith('.'))
    .map(({ target, typeOnly }) => ({
      name: (/^(@[^/]+\/[^/]+|[^/]+)/.exec(target) as RegExpExecArray)[0],
      typeOnly,
    }))

describe('the reader of imports', () => {
  test('the reader of imports finds every form', () => {
    const found = importsOf(`
import a from 'one'
import type { B } from './two.ts'
import { type C, type D } from 'three'
import { type E, f } from 'four'
import type G, { H } from 'five'
import {
  i,
  type J,
} from './six.ts'
import * as k from 'node:seven'
import 'eight'
export { l } from './nine.ts'
const m = await import('ten')
type N = typeof import('eleven')
const o = createRequire(import.meta.url)('node:twelve') as unknown
const p = new Worker(new URL('../thirteen.ts', import.meta.url))
`)
    const values = found.filter(({ typeOnly }) => !typeOnly).map(({ target }) => target)
    const types = found.filter(({ typeOnly }) => typeOnly).map(({ target }) => target)
    assert.deepEqual(values.sort(), [
      '../thirteen.ts',
      './nine.ts',
      './six.ts',
      'eight',
      'four',
      'node:seven',
      'node:twelve',
      'one',
      'ten',
    ])
    assert.deepEqual(types.sort(), ['./two.ts', 'eleven', 'five', 'three'])
  })

  test('the reader of imports finds every line that starts with import', () => {
    for (const { file, code, imports } of sources) {
      const lines = code.match(/^import\b(?!\.meta)/gm)?.length ?? 0
      assert.ok(imports.length >= lines, `${file}: ${imports.length} of ${lines}`)
    }
  })

  test('comments are not code, URLs are not comments', () => {
    assert.equal(
      withoutComments("a() // b()\nconst c = 'https://d' /* e() */"),
      "a() \nconst c = 'https://d'          ",
    )
  })
})

describe('imports between directories', () => {
  // The optional parts. Each can be deleted from server/parts.ts.
  const OPTIONAL = ['images', 'forms', 'reports', 'warmup', 'watch', 'why', 'mcp', 'compat']
  // The floors, the lowest first. Directories of one line do not import each other.
  const FLOORS = [
    ['base'],
    ['net'],
    ['message', 'smtp', 'acme', 'store'],
    ['jsonapi'],
    ['views'],
    ['parts'],
    // The subjects: each imports only those above it in this list.
    ['users'],
    ['webhooks'],
    ['domains'],
    ['suppressions'],
    ['reputation'],
    ['delivery'],
    ['mail'],
    ['campaigns'],
    ['lists'],
    ['inbound'],
    ['submission'],
    ['privacy'],
    ['recipients'],
    ['checks'],
    ['archive'],
    ['http'],
    ['console'],
    ...OPTIONAL.map((folder) => [folder]),
    ['server'],
    ['cli'],
  ]
  const BANDS: Record<string, number> = Object.fromEntries(
    FLOORS.flatMap((folders, index) => folders.map((folder) => [folder, index])),
  )
  // The reason for each 'from/file.ts -> to/file.ts'.
  const EXCEPTIONS: Record<string, string> = {}

  test('every directory of src/ has its band, and every file is in a directory', () => {
    assertNone(sources.filter(({ folder }) => !(folder in BANDS)).map(({ file }) => file))
    assertNone(Object.keys(BANDS).filter((folder) => sources.every((source) => source.folder !== folder)))
  })

  test('imports stay in the directory or go to a lower one, even for types', () => {
    const upward = sources.flatMap((source) =>
      internal(source)
        .filter((target) => {
          const to = target.split('/')[0]!
          return to !== source.folder && !(BANDS[to]! < BANDS[source.folder]!)
        })
        .map((target) => `${source.file} -> ${target}`),
    )
    assertNone(upward.filter((edge) => !(edge in EXCEPTIONS)))
    assert.deepEqual(
      Object.keys(EXCEPTIONS).filter((edge) => !upward.includes(edge)),
      [],
      'exceptions that nothing needs',
    )
  })

  test('only the list of the parts and other optional parts import an optional part', () => {
    assertNone(
      sources
        .filter(({ file, folder }) => file !== 'server/parts.ts' && !OPTIONAL.includes(folder))
        .flatMap((source) =>
          internal(source)
            .filter((target) => OPTIONAL.includes(target.split('/')[0]!))
            .map((target) => `${source.file} -> ${target}`),
        ),
    )
  })

  // The levels inside a directory, the lowest first. Files outside of them are shared by all, or above them.
  const LEVELS: Record<string, string[]> = { delivery: ['results', 'queue', 'wire', 'pacing'], mail: ['accept'] }

  test('a subdirectory imports only its own files and lower subdirectories', () => {
    for (const [folder, levels] of Object.entries(LEVELS)) {
      const levelOf = (file: string): number => levels.indexOf(file.split('/').length > 2 ? file.split('/')[1]! : '')
      const inside = sources.filter((source) => source.folder === folder)
      assert.deepEqual(
        levels.filter((_, index) => inside.every(({ file }) => levelOf(file) !== index)),
        [],
        `levels of ${folder} without files`,
      )
      assertNone(
        inside.flatMap((source) =>
          internal(source)
            .filter((target) => target.startsWith(`${folder}/`) && levelOf(source.file) >= 0)
            .filter((target) => levelOf(target) > levelOf(source.file))
            .map((target) => `${source.file} -> ${target}`),
        ),
      )
    }
  })

  test('every imported file and name exists', () => {
    assertNone(
      sources.flatMap((source) =>
        internal(source)
          .filter((target) => !existsSync(join(SRC, target)))
          .map((target) => `${source.file} -> ${target}`),
      ),
    )
  })

  test('no file imports itself through other files, even for types', () => {
    const edges = new Map(sources.map((source) => [source.file, internal(source)]))
    const done = new Set<string>()
    const cycles: string[] = []
    const visit = (file: string, path: string[]): void => {
      const seen = path.indexOf(file)
      if (seen >= 0) return void cycles.push([...path.slice(seen), file].join(' -> '))
      if (done.has(file)) return
      for (const target of edges.get(file) ?? []) visit(target, [...path, file])
      done.add(file)
    }
    for (const file of edges.keys()) visit(file, [])
    assertNone(cycles)
  })
})

describe('packages', () => {
  // Packages that many directories import could not be replaced, so each is imported in one, except these.
  const EVERYWHERE: Record<string, string> = {
    hono: 'pages are written as html`…`, and a request has its type',
    zod: 'resources describe their attributes, files of the configuration their form',
    commander: 'each subject has its command',
  }
  const SEVERAL: Record<string, readonly string[]> = {
    '@hono/node-server': ['http', 'net'],
    'dns-packet': ['net', 'server'],
    mailauth: ['inbound', 'server'],
    saxes: ['archive', 'reports'],
    'smol-toml': ['base', 'smtp', 'watch'],
    yazl: ['archive', 'privacy'],
  }

  test('a package is imported in one directory, or in the listed ones', () => {
    const folders = new Map<string, Set<string>>()
    for (const source of sources)
      for (const { name } of external(source))
        if (!name.startsWith('node:') && !(name in EVERYWHERE))
          folders.set(name, (folders.get(name) ?? new Set()).add(source.folder))
    const several = [...folders].filter(([, names]) => names.size > 1)
    assert.deepEqual(Object.fromEntries(several.map(([name, names]) => [name, [...names].toSorted()])), SEVERAL)
  })

  test('only store/ imports better-sqlite3', () => {
    const naming = sources.filter((source) => external(source).some(({ name }) => name === 'better-sqlite3'))
    assert.ok(naming.length > 0)
    assertNone(naming.filter(({ folder }) => folder !== 'store').map(({ file }) => file))
  })

  // A bare executable loads SQLite from a file of its own for each thread. POSIX locks belong to a process: when a
  // thread closes the database, the server loses its locks, and another process deletes its write-ahead log.
  test('no thread of a running server loads SQLite (D206)', () => {
    const edges = new Map(
      sources.map(({ file, imports }) => [
        file,
        imports.filter(({ typeOnly }) => !typeOnly).map(({ target }) => normalize(join(dirname(file), target))),
      ]),
    )
    const reached = (file: string, seen = new Set<string>()): Set<string> => {
      for (const target of edges.get(file) ?? []) if (!seen.has(target)) reached(target, seen.add(target))
      return seen
    }
    const threads = Object.values(ENTRIES).filter((entry) => entry.startsWith('src/'))
    // The database is upgraded before the server opens it.
    const before = ['src/store/upgrade-worker.ts']
    const naming = sources.filter(({ imports }) =>
      imports.some(({ target, typeOnly }) => target === 'better-sqlite3' && !typeOnly),
    )
    const loading = threads.filter((entry) => {
      const all = reached(entry.slice('src/'.length)).add(entry.slice('src/'.length))
      return naming.some(({ file }) => all.has(file))
    })
    assert.deepEqual(loading, before)
  })

  test('builtins carry node:, and every package is a dependency', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    assertNone(
      sources.flatMap((source) =>
        external(source)
          .filter(({ name }) => (name.startsWith('node:') ? !isBuiltin(name) : !(name in dependencies)))
          .map(({ name }) => `${source.file} names ${name}`),
      ),
    )
  })
})

describe('one writer per table', () => {
  // store/move.ts writes the status of the table that its state machine names. store/erasing.ts marks an address in
  // every column that is described as one. store/sums.ts adds to the table that its owner describes. store/set-back.ts
  // corrects the times of every table by the error of the clock (D120).
  const EXCEPTIONS = [
    'store/erasing.ts writes ${table}',
    'store/move.ts writes ${table}',
    // The rate of an agent changes the due times of its email.
    'reputation/agents.ts writes deliveries',
    'store/sums.ts writes ${table}',
    ...['${table}', 'deliveries', 'domains', 'notices'].map((table) => `store/set-back.ts writes ${table}`),
  ]

  test('only the owner of a table inserts, updates and deletes its rows', () => {
    const foreign: string[] = []
    const written = new Set<string>()
    const note = ({ file, folder }: Source, table: string): void => {
      // Migrations change rows of any table, and create the triggers that write into others. A table that they recreate
      // has another name until then.
      const migrating = file.startsWith('store/schema/migrations/')
      if (!migrating || table in TABLES) written.add(table)
      if (migrating) return
      if ((TABLES as Record<string, { owner: string }>)[table]?.owner !== folder)
        foreign.push(`${file} writes ${table}`)
    }
    for (const source of sources) {
      for (const [, argument] of source.code.matchAll(
        /\b(?:insertInto|updateTable|deleteFrom|replaceInto|mergeInto)\(\s*([^)\s]+)\s*\)/g,
      ))
        note(source, /^'(\w+)'$/.exec(argument!)?.[1] ?? argument!)
      for (const [, table] of source.code.matchAll(
        /\b(?:insert\s+(?:or\s+\w+\s+)?into|replace\s+into|delete\s+from|update(?:\s+or\s+\w+)?(?=\s+\S+(?:\s+as\s+\w+)?\s+set\b))\s+("?\w+"?|\$\{[^}]+\})/gi,
      ))
        note(source, table!.replaceAll('"', ''))
      for (const [, table] of source.code.matchAll(/: SumTable = \{\s*table: '(\w+)'/g)) note(source, table!)
    }
    assertNone(foreign.filter((fault) => !EXCEPTIONS.includes(fault)))
    assert.deepEqual(
      EXCEPTIONS.filter((exception) => !foreign.includes(exception)),
      [],
      'exceptions that nothing needs',
    )
    // The scan finds each table's writer. Otherwise it would not prove anything.
    assert.deepEqual([...written].filter((name) => !name.startsWith('$')).sort(), Object.keys(TABLES).sort())
  })

  test('every table is owned by a directory', () => {
    assertNone(
      Object.entries(TABLES).flatMap(([table, { owner }]) =>
        existsSync(join(SRC, owner)) ? [] : [`${table}: ${owner}`],
      ),
    )
  })
})

describe('statuses', () => {
  // A contact's status follows from the suppressions of its address (D41), not from events of its row. A trigger closes
  // a form with its audience, inbox or domain: their subjects are below that of the forms.
  const FOLLOWS = ['store/move.ts', 'campaigns/contacts.ts', 'store/schema/migrations/0036-forms.ts']

  test('only store/move.ts changes a status', () => {
    const found = sources
      .filter(({ file }) => !FOLLOWS.includes(file))
      .flatMap(({ code, file }) => [
        ...[...code.matchAll(/\bset (?:\w+ = [^,`']+, )*status\s*=/g)].map(([text]) => `${file} ${text}`),
        ...[...code.matchAll(/updateTable\([^)]*\)\s*\.set\(\{[^}]*\bstatus\b/g)].map(([text]) => `${file} ${text}`),
      ])
    assertNone(found)
  })
})

describe('time and network', () => {
  // Files that read the machine's clock or set a timer, with the reason.
  const TIMERS: Record<string, string> = {
    'http/listen.ts setImmediate': 'what a client sent is read before it counts as slow',
    'base/clock.ts Date.now': 'this is the clock',
    'base/clock.ts setTimeout': 'this is the clock',
    'base/clock.ts performance.now': 'the time that passed, whatever the date says',
    'store/commits.ts setImmediate': 'a batch is what one turn of the event loop asks for',
    'store/commits.ts setTimeout': 'under load a commit waits for more writes to share it',
    'store/commits.ts performance.now':
      'a commit waits as long as the one before took, and ends so that the event loop turns',
    'base/threads/worker-slot.ts setImmediate': 'jobs of one turn of the event loop go in one message',
    'base/threads/jobs.ts setImmediate': 'results of one turn of the event loop go in one message',
    'base/threads/jobs.ts setTimeout': 'an answer may take so long',
    'base/threads/supervisor.ts performance.now': 'how long a thread has not answered',
    'base/threads/supervisor.ts setTimeout': 'an idle worker thread is ended',
    'delivery/wire/workers.ts performance.now': 'a connection grows too old for another mail',
    'net/time-server.ts setTimeout': 'timeouts of a socket',
    'net/https.ts setTimeout': 'timeouts of a socket',
    'server/systemd-notices.ts process.hrtime': 'the time since the start of the machine, by which systemd compares',
    'console/browser/console.ts setTimeout': 'in the browser',
    'console/browser/frame.ts setTimeout': 'in the browser',
    'console/browser/palette.ts setTimeout': 'in the browser',
    'console/browser/editor-saving.ts Date.now': 'in the browser',
    'console/browser/editor-saving.ts setTimeout': 'in the browser',
    'console/browser/editor-saving.ts new Date()': 'the clock of who writes',
    'console/browser/editor.ts setTimeout': 'in the browser',
    'console/browser/times.ts new Date()': 'the clock of the reader',
    'base/retry-until-written.ts setTimeout': 'at the end of the process a write is tried every quarter of a second',
    'smtp/listener.ts setInterval': 'deadlines of sockets',
    'smtp/listener.ts setTimeout': 'deadlines of sockets',
    'smtp/listener.ts performance.now': 'clients that connected just now',
    'smtp/session.ts performance.now': 'deadlines of a socket',
    'inbound/scan.ts setTimeout': 'timeouts of a socket',
    'campaigns/api-activity.ts setImmediate': 'other work runs between its pieces',
    'campaigns/api-activity.ts node:timers': 'other work runs between its pieces',
    'compat/kit.ts setImmediate': 'the server sees that a client is gone',
    'compat/kit.ts node:timers': 'the server sees that a client is gone',
    'compat/answer-time.ts setImmediate': 'the end of a connection is read before it counts as open',
    'base/semaphore.ts setImmediate': 'other work runs between the steps of large requests',
    'base/semaphore.ts node:timers': 'other work runs between the steps of large requests',
    'compat/mailgun-events.ts setImmediate': 'other work runs between the pages that a filter reads',
    'compat/mailgun-events.ts node:timers': 'other work runs between the pages that a filter reads',
    'mail/api-batches.ts setImmediate': 'other work runs between some items of a batch',
    'mail/api-batches.ts node:timers': 'other work runs between some items of a batch',
    'mail/accept/batch-recipients.ts setImmediate': 'other work runs between some recipients of a batch',
    'mail/accept/batch-recipients.ts node:timers': 'other work runs between some recipients of a batch',
    'views/html/csv.ts setImmediate': 'other work runs between long rows',
    'campaigns/reach.ts setImmediate': 'other work runs between its pieces',
    'campaigns/reach.ts node:timers': 'other work runs between its pieces',
    'store/slices.ts setImmediate': 'between the slices of a search the event loop turns',
    'store/slices.ts performance.now': 'the time of a slice of a search',
    'mail/notice-mail.ts setTimeout': 'a stop waits so long for notices under way',
    'inbound/reading.ts setTimeout': 'a stop waits so long for the store',
    'inbound/judge.ts performance.now': 'DNS may hold up one message so long',
    'server/inbound.ts setTimeout': 'a stop waits so long for what is being read',
    'smtp/channel.ts Date.now': 'dates of certificates are judged by the date of the machine, as in all TLS',
    'smtp/channel.ts setTimeout': 'timeouts of a socket',
    'smtp/client.ts performance.now': 'a connection grows too old for another mail',
    'base/standby.ts AbortSignal.timeout': 'a standby that hangs is not ready',
    'cli/ask-health.ts AbortSignal.timeout': 'a server that hangs is not healthy',
    'net/dns-question.ts setTimeout': 'timeouts of a socket',
    'webhooks/dispatch.ts performance.now': 'how long an endpoint took to answer',
  }
  // The use of the network, and the reason in each file.
  const NETWORK: Record<string, string> = {
    'base/network.ts node:net': 'arithmetic of addresses',
    'base/tls.ts node:tls': 'the list of certificate authorities',
    'archive/destinations/s3-settings.ts node:net': 'arithmetic of addresses',
    'net/resolver.ts node:dns': 'the resolver',
    'net/time-server.ts node:dgram': 'how wrong the clock is',
    'net/bindable.ts node:dgram': 'whether this machine has an address',
    'smtp/channel.ts node:net': 'the socket under smtp/client.ts',
    'smtp/channel.ts node:tls': 'STARTTLS of smtp/client.ts',
    'smtp/route.ts node:net': 'arithmetic of addresses',
    'smtp/listener.ts smtp-server': 'the listener of SMTP',
    'smtp/session.ts smtp-server': 'the sessions of the listeners',
    'inbound/scan.ts node:net': 'the virus scanner',
    'net/client-address.ts node:net': 'arithmetic of addresses',
    'http/places.ts node:net': 'arithmetic of addresses',
    'users/passkeys.ts node:net': 'arithmetic of addresses',
    'http/listen.ts @hono/node-server': 'the application behind it',
    'http/listen.ts node:http': 'the HTTP listener',
    'http/listen.ts node:https': 'the HTTPS listener',
    'console/browser/console.ts EventSource': 'the browser asks its own server',
    'console/browser/palette.ts fetch': 'the browser asks its own server',
    'console/reference/samples.ts fetch': 'a sample for programs of others',
    'console/reference/resource-page.ts node:http': 'the names of statuses',
    'console/browser/editor-pictures.ts fetch': 'the browser asks its own server',
    'console/browser/editor-saving.ts fetch': 'the browser asks its own server',
    'console/browser/passkey.ts fetch': 'the browser asks its own server',
    'console/browser/uploads.ts fetch': 'the browser asks its own server',
    'net/dns-question.ts node:dgram': 'questions whose answers say whether they were validated',
    'net/dns-question.ts node:dns': 'the servers of the system',
    'net/dns-question.ts node:net': 'the same over TCP',
    'server/acme.ts node:net': 'arithmetic of addresses',
    'domains/advised.ts node:net': 'arithmetic of addresses',
    'watch/reverse.ts node:net': 'arithmetic of addresses',
    'acme/certificates.ts node:tls': 'what HTTPS shows to whom',
    'server/sandbox/dns.ts node:dgram': 'the DNS of the sandbox',
    'server/sandbox/receiver.ts node:https': 'the webhook receiver of the sandbox',
    'server/sandbox/exchanger.ts fetch': 'a subscriber of the sandbox presses a button of this server',
    'net/guard.ts node:net': 'addresses in URLs, and the form of a look-up',
    'base/standby.ts node:net': 'the standby on this machine',
    'server/standby.ts node:net': 'the standby on this machine',
    'cli/ask-health.ts node:http': 'the server of this machine, or one that the operator names',
    'cli/ask-health.ts node:https': 'the same',
    'net/https.ts node:http': 'links of campaigns',
    'net/https.ts node:https':
      'the one client: files and policies by URL, links, calls of webhooks, a certificate authority',
    'net/https.ts node:tls': 'a context for kept connections',
  }
  const NETWORK_MODULES =
    /^(node:(net|tls|http|https|http2|dgram|dns|inspector|quic)|smtp-server|@hono\/node-server|undici|ws)$/

  const compare = (found: string[], allowed: Record<string, string>): void => {
    const seen = [...new Set(found)]
    assertNone(seen.filter((place) => !(place in allowed)))
    const stale = Object.keys(allowed).filter((place) => {
      const file = place.split(' ')[0]!
      return !seen.includes(place) && sources.some((source) => source.file === file)
    })
    assert.deepEqual(stale, [], 'exceptions that nothing needs')
  }

  test('code that depends on time uses the clock that tests control', () => {
    const found = sources.flatMap(({ file, code }) =>
      [
        ...code.matchAll(
          /\b(Date\.now|performance\.now|setTimeout|setInterval|setImmediate|process\.hrtime|Date\(\)|AbortSignal\.timeout|Atomics\.wait|scheduler\.wait|node:timers)\b|\bnew Date\(\)/g,
        ),
      ].map(([word]) => `${file} ${word}`),
    )
    compare(found, TIMERS)
  })

  test('only the listed files use the network', () => {
    const found = sources.flatMap((source) => [
      ...external(source)
        .filter(({ name, typeOnly }) => !typeOnly && NETWORK_MODULES.test(name))
        .map(({ name }) => `${source.file} ${name}`),
      ...[...source.code.matchAll(/(?<![.#\w])(fetch|WebSocket|EventSource)\(/g)].map(
        ([, word]) => `${source.file} ${word}`,
      ),
    ])
    // Our own `fetch` (an option of the listener, a private method) is not a call of the global.
    compare(found, NETWORK)
  })
})

test('only base/durable.ts creates directories with their parents, because the recursive mkdir of Node can hang', () => {
  const recursive = /\bmkdir(?:Sync)?\([^;]*?recursive: true/
  assertNone(sources.filter(({ code }) => recursive.test(code)).map(({ file }) => file))
})

test('commands read their configuration with views/command/open.ts, which returns that of the sandbox for its data (D216)', () => {
  const reading = sources.filter(({ code }) => /\bloadConfig\(/.test(code)).map(({ file }) => file)
  // `dev` reads only the reserve of the disk.
  assert.deepEqual(reading.toSorted(), ['base/config.ts', 'cli/dev.ts', 'views/command/open.ts'])
})

describe('log events', () => {
  const events = Object.keys(LOG_EVENTS).toSorted()

  test('log events are identifiers of two to four words, each with a message', () => {
    for (const [event, message] of Object.entries(LOG_EVENTS)) {
      assert.match(event, /^[a-z0-9]+(_[a-z0-9]+){1,3}$/)
      // Filters such as packaging/fail2ban skip the message up to its quotation mark.
      assert.match(message, /^[A-Za-z][^"\\]*[^.\s"\\]$/, event)
    }
  })

  test('each log event is logged somewhere', () => {
    const code = sources.filter(({ file }) => file !== 'base/log-events.ts')
    assertNone(events.filter((event) => !code.some(({ text }) => text.includes(`'${event}'`))))
  })

  test('docs/logs.md has a row for each log event', () => {
    const page = readFileSync(new URL('../../docs/logs.md', import.meta.url), 'utf8')
    const rows = [...page.matchAll(/^\| `([^`]+)` \| (?:debug|info|warn|error)\b/gm)].map((row) => row[1]!)
    assert.deepEqual(rows.toSorted(), events)
  })
})

describe('files', () => {
  test('file names are in kebab case and descriptive', () => {
    const vague = /(^|[/-])(index|utils?|helpers?|common|misc|managers?|services?)(?=[./-]|$)/
    assertNone(
      sources
        .map(({ file }) => file)
        .filter((file) => vague.test(file) || !/^[a-z0-9-]+(\/[a-z0-9-]+)+(\.d)?\.ts$/.test(file)),
    )
  })

  test('each file starts with a comment that describes it', () => {
    assertNone(sources.filter(({ text }) => !/^(\/\/ \S|\/\*\*?\s)/.test(text)).map(({ file }) => file))
  })

  test('files have at most 450 lines', () => {
    assertNone(
      sources.flatMap(({ file, text }) => {
        const lines = text.split('\n').length - 1
        return lines > 450 ? [`${file}: ${lines}`] : []
      }),
    )
  })
})

describe('the package', () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string
    scripts: Record<string, string>
  }

  test('package.json has the version of the program', () => assert.equal(manifest.version, version))

  test('tests run on the Node that the lock file pins', () => assert.match(process.versions.node, /^26\./))

  test('package.json has the scripts of the contract', () => {
    for (const script of ['start', 'test', 'build', 'test:interop', 'bench'])
      assert.ok(manifest.scripts[script], script)
    assert.match(manifest.scripts['start']!, /bin\/postrider\.ts dev$/)
  })

  test('scripts of package.json run the pinned Node and name existing files', () => {
    // npm signals only its shell, which must therefore be replaced with "exec".
    const started = Object.values(manifest.scripts)
      .flatMap((script) => script.split('&&'))
      .map((command) => command.trim().replace(/^(?:[A-Z_]+=\S+ )+/, ''))
    assert.deepEqual(
      started.filter(
        (command) => !/^(exec sh bin\/node\.sh|exec sh test\/(?:run|unit)\.sh|npm run --silent \S+)( |$)/.test(command),
      ),
      [],
    )
    assertNone(
      started
        .flatMap((command) => [
          ...command.matchAll(/(?<= )(?:bin|packaging|test|node_modules\/\.bin)\/[^\s*]+(?= |$)/g),
        ])
        .map(([file]) => file)
        .filter((file) => !existsSync(join(ROOT, file))),
    )
  })

  test('every package of the lock file accepts the Node that npm runs on', () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { engines?: object }>
    }
    const asking = Object.keys(packages).filter((path) => path !== '' && packages[path]!.engines)
    assert.deepEqual(asking, [], 'run "npm run lock"')
  })

  test('no file names a package registry or a path of one machine', () => {
    // Each pattern is written so that it does not find itself.
    const forbidden = [
      /registry[.]npmjs[.]|npm[m]irror|artifactor[y]|nexus[/]repository|"resolved["]/i,
      /(?<![\w.$}~-])[/](?:work|root|home|Users)[/][\w.-]/,
    ]
    const faults: string[] = []
    const visit = (folder: string): void => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name)
        // A directory, in a worktree a file.
        if (entry.name === '.git') continue
        if (entry.isDirectory()) {
          const skipped = ['node_modules', 'dist', 'data', '.postrider', '.tests']
          if (!skipped.includes(entry.name)) visit(path)
          continue
        }
        if (!entry.isFile() || (entry.name === 'postrider.toml' && folder === normalize(ROOT))) continue
        const text = readFileSync(path, 'latin1')
        for (const pattern of forbidden) {
          const found = pattern.exec(text)
          if (found)
            faults.push(`${relative(ROOT, path)}:${text.slice(0, found.index).split('\n').length}: ${found[0]}`)
        }
      }
    }
    visit(ROOT)
    assertNone(faults)
  })
})

/**
 * Packages of which the executable contains two versions, because their users require different ones. None of them has
 * state in its module that all its users must share.
 */
const TWICE = ['commander', 'entities', 'libbase64', 'libmime', 'libqp', 'nodemailer', 'tldts', 'tslib']

test('every package is installed in a single version, because a module with a registry would have two', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; dev?: boolean }>
  }
  const versions = new Map<string, Set<string>>()
  for (const [path, { dev, version }] of Object.entries(packages)) {
    const name = path.replace(/^.*node_modules\//, '')
    if (path !== '' && !dev) versions.set(name, (versions.get(name) ?? new Set()).add(version))
  }
  const twice = [...versions].filter(([, all]) => all.size > 1).map(([name]) => name)
  assert.deepEqual(twice.sort(), TWICE)
})
