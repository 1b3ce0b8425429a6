import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { version } from '../../src/base/version.ts'
import { EXAMPLES, leaves } from '../../src/cli/examples.ts'
import { createProgram } from '../../src/cli/main.ts'
import { SHORTEST_PASSWORD } from '../../src/users/users.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { Commands, sentenceOf, start } from '../commands/command.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('cli')
const config = join(folder, 'conf', 'here.toml')
const commands = new Commands(folder, ['--config', config])
let dns: TestDns
let exchanger: TestExchanger

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

before(async () => {
  dns = await startTestDns()
  dns.set('mx.here.test', 'A', ['127.0.0.1'])
  dns.set('1.0.0.127.in-addr.arpa', 'PTR', ['mx.here.test'])
  exchanger = await startTestExchanger({ tls: true })
  dns.set('there.test', 'MX', ['10 mx.there.test'])
  dns.set('mx.there.test', 'A', ['127.0.0.1'])
  dns.set('free.test', 'MX', ['10 mx.there.test'])
  mkdirSync(join(folder, 'conf'))
  writeFileSync(
    config,
    `hostname = "mx.here.test"
     data_dir = ${JSON.stringify(join(folder, 'data'))}
     regions = ["default", "eu"]
     [dns]
     servers = ["127.0.0.1:${dns.port}"]
     [delivery]
     port = ${exchanger.port}
     [network]
     allow_private = ["127.0.0.0/8"]`,
  )
  makeInstallation(join(folder, 'data'))
  await commands.json('user', 'add', 'ann@owner.test', '--name', 'Ann')
})
after(async () => {
  await commands.close()
  await exchanger.close()
  await dns.close()
})

interface ZoneLine {
  name: string
  ttl: number
  type: string
  /** A text record's strings joined, other data without its final dot. */
  value: string
}

/** The lines of a zone file (RFC 1035 §5.1). Throws for other lines. */
function parseZone(zone: string): ZoneLine[] {
  return zone.split('\n').map((line) => {
    const [, name, ttl, type, data] = /^(\S+)\. (\d+) IN (TXT|MX|CNAME|TLSA|CAA) (.+)$/.exec(line) ?? []
    assert.ok(name !== undefined && data !== undefined && type !== undefined, `no record: ${line}`)
    if (type === 'TLSA' || type === 'CAA') return { name, ttl: Number(ttl), type, value: data }
    if (type !== 'TXT') {
      assert.match(data, type === 'MX' ? /^\d+ \S+\.$/ : /^\S+\.$/)
      return { name, ttl: Number(ttl), type, value: data.slice(0, -1) }
    }
    assert.match(data, /^"(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*$/, line)
    const strings = [...data.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text!.replace(/\\(.)/g, '$1'))
    for (const text of strings) assert.ok(Buffer.byteLength(text) <= 255, `a string of ${text.length} bytes`)
    return { name, ttl: Number(ttl), type, value: strings.join('') }
  })
}

/** Publishes the records of `domain records` in the test DNS. */
async function publish(name: string): Promise<void> {
  const { zone } = await commands.json('domain', 'records', name)
  for (const record of parseZone(zone)) dns.set(record.name, record.type, [record.value])
}

describe('usage', () => {
  test('help lists every command and exits 0', async () => {
    const { code, stdout, stderr } = await commands.run(['help'], { bare: true })
    assert.deepEqual([code, stderr], [0, ''])
    for (const name of ['serve', 'dev', 'init', 'user', 'token', 'domain', 'queue', 'send', 'openapi', 'completion'])
      assert.match(stdout, new RegExp(`^  ${name}\\b.*\\S{3}`, 'm'))
    for (const option of ['--config', '--json']) assert.ok(stdout.includes(option))
  })

  test('every command and option has a description', () => {
    const visit = (command: ReturnType<typeof createProgram>, path: string): void => {
      assert.match(command.description(), /\S/, path)
      for (const option of command.options) assert.match(option.description, /\S/, `${path} ${option.flags}`)
      for (const child of command.commands) visit(child, `${path} ${child.name()}`)
    }
    visit(createProgram({}), 'postrider')
  })

  test('docs/commands.md names every command, and the configuration reserves no key', () => {
    const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
    const headings = [...read('docs/commands.md').matchAll(/^##+ (.+)$/gm)].map(([, heading]) => heading!)
    const missing = leaves(createProgram({}))
      .map(([path]) => path)
      .filter((path) => !headings.includes(path))
    assert.deepEqual(missing, [])
    assert.doesNotMatch(read('config/postrider.toml'), /reserved/)
  })

  test('the help of every command ends with examples that are valid command lines of it', async () => {
    const all = new Map(leaves(createProgram({})))
    assert.deepEqual([...all.keys()].toSorted(), Object.keys(EXAMPLES).toSorted())
    for (const [path, command] of all) {
      let help = ''
      command.configureOutput({ writeOut: (text) => (help += text) })
      command.outputHelp()
      const [, shown = ''] = /\nExamples?:\n((?: {2}\S.*\n)+)$/.exec(help) ?? []
      const lines = shown.trimEnd().split('\n')
      assert.deepEqual(
        lines.map((line) => line.trim()),
        EXAMPLES[path],
      )
      for (const line of lines) {
        // Split as a shell does, without commands before a pipe and redirections.
        const words = /postrider (.*)$/
          .exec(line)![1]!
          .replace(/\s[<>].*$|\)$/, '')
          .match(/"[^"]*"|\S+/g)!
        const program = createProgram({})
        const ran: string[] = []
        for (const [name, each] of leaves(program)) each.exitOverride().action(() => void ran.push(name))
        program.configureOutput({ writeErr: () => {} })
        await program.parseAsync(
          words.map((word) => word.replaceAll('"', '')),
          { from: 'user' },
        )
        assert.deepEqual(ran, [path], line)
      }
    }
  })

  test('prints the help of a command and the version', async () => {
    for (const argv of [
      ['domain', '--help'],
      ['help', 'domain'],
      ['domain', 'add', '--help'],
    ]) {
      const { code, stdout, stderr } = await commands.run(argv, { bare: true })
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /^Usage: postrider domain/)
    }
    assert.match(
      (await commands.run(['help', 'domain', 'add'], { bare: true })).stdout,
      /^Usage: postrider domain add /,
    )
    assert.match(await commands.misused('help', 'nothing'), /unknown command 'nothing'/)
    assert.match(await commands.misused('help', 'domain', 'nothing'), /unknown command 'domain nothing'/)
    assert.deepEqual(await commands.run(['--version'], { bare: true }), { code: 0, stdout: `${version}\n`, stderr: '' })
  })

  for (const [what, ...argv] of [
    ['no command'],
    ['an unknown command', 'sned'],
    ['an unknown subcommand', 'domain', 'ad'],
    ['an unknown option', 'serve', '--port', '25'],
    ['a missing argument', 'user', 'add'],
    ['a missing option', 'domain', 'add', 'here.test'],
    ['an argument too many', 'user', 'list', 'ann'],
    ['an option without its value', 'dev', '--http'],
    ['a value out of a list', 'domain', 'add', 'x.test', '--user', 'ann@owner.test', '--purpose', 'spam'],
    ['another value out of a list', 'domain', 'add', 'x.test', '--user', 'ann@owner.test', '--tls-policy', 'Never'],
    [
      'a duration out of the list',
      'token',
      'create',
      '--user',
      'ann@owner.test',
      '--name',
      'n',
      '--scopes',
      'all',
      '--duration',
      '2_months',
    ],
    [
      'a token name of two lines',
      'token',
      'create',
      '--user',
      'ann@owner.test',
      '--name',
      'two\nlines',
      '--scopes',
      'all',
      '--duration',
      '1_month',
    ],
    ['a user name of two lines', 'user', 'add', 'two@owner.test', '--name', 'two\nlines'],
    ['an unknown shell', 'completion', 'csh'],
    ['neither an id nor --all', 'queue', 'retry'],
    ['an id and --all', 'queue', 'retry', 'x', '--all'],
    ['an id and --lane', 'queue', 'hold', 'x', '--lane', 'there.test'],
    ['neither an id nor --lane', 'queue', 'release'],
  ] as [string, ...string[]][])
    test(`${what} is wrong usage`, async () => {
      const said = await commands.misused(...argv)
      if (argv.length > 0) assert.match(said, /^error: /)
      const { code, stderr, stdout } = await commands.run(['--json', ...argv])
      assert.deepEqual([code, stderr], [2, said])
      const { error } = JSON.parse(stdout) as { error: { message: string; code: string } }
      assert.equal(error.code, 'usage')
      if (argv.length > 0) assert.ok(said.includes(error.message), error.message)
    })

  test('queue retry without arguments mentions --all, the other commands do not', async () => {
    assert.match(await commands.misused('queue', 'retry'), /"postrider queue retry --all" for the whole queue/)
    assert.doesNotMatch(await commands.misused('queue', 'drop'), /--all/)
  })

  test('reports a missing or invalid configuration in one sentence', async () => {
    const missing = join(folder, 'missing.toml')
    for (const words of [['user', 'list'], ['serve', '--check'], ['serve']]) {
      const said = await commands.run(['--config', missing, ...words])
      assert.ok(sentenceOf(said).includes(missing), said.stderr)
      const named = await commands.run(words, { env: { POSTRIDER_CONFIG: missing }, bare: true })
      assert.ok(sentenceOf(named).includes(missing), named.stderr)
    }
    const wrong = fileURLToPath(new URL('../bad-config/endpoint-without-port.toml', import.meta.url))
    assert.ok((await commands.fails('--config', wrong, 'user', 'list')).startsWith(`${wrong}:3: "http.listen" `))
  })

  test('--json prints an error as a document with its code', async () => {
    const { code, stdout } = await commands.run(['--json', 'user', 'remove', 'nobody@owner.test'])
    const { error } = JSON.parse(stdout)
    assert.deepEqual([code, error.code], [1, 'refused'])
    assert.match(error.message, /nobody@owner\.test/)
    const twice = ['--json', 'domain', 'add', 'refused.test', '--user', 'ann@owner.test']
    await commands.run(twice)
    const again = await commands.run(twice)
    await commands.json('domain', 'remove', 'refused.test')
    assert.equal(JSON.parse(again.stdout).error.code, 'already_exists')
    assert.equal((await commands.run(['user', 'remove', 'nobody@owner.test'])).stdout, '')
  })

  test('reports a file that cannot be written in one sentence', async () => {
    const nowhere = join(folder, 'nowhere', 'b.zip')
    assert.ok((await commands.fails('backup', nowhere)).startsWith(`${nowhere} cannot be written (ENOENT)`))
    const link = join(folder, 'dangling.zip')
    symlinkSync(nowhere, link)
    assert.match(await commands.fails('backup', link), /dangling\.zip is a symbolic link whose target does not exist; /)
  })

  test('reports an unusable CA file in one sentence', async () => {
    const junk = join(folder, 'junk.pem')
    writeFileSync(junk, 'no certificate')
    for (const file of [junk, join(folder, 'nowhere.pem')]) {
      const env = { POSTRIDER_WEBHOOKS_CA_FILE: file, POSTRIDER_HTTP_LISTEN: '127.0.0.1:0' }
      const { code, stderr } = await commands.run(['serve'], { env })
      assert.equal(code, 1)
      assert.match(stderr, /^postrider: "tls\.ca_file": [^\n]+\.\n$/)
      assert.ok(stderr.includes(file), stderr)
    }
  })

  test('serve --check validates the configuration without starting a server', async () => {
    const file = join(folder, 'checked.toml')
    const shaping = join(folder, 'checked-shaping.toml')
    writeFileSync(shaping, '[no_such_section]\n')
    for (const [text, wrong] of [
      ['hostname = "mx.here.test"\n', undefined],
      ['hostname = "mx.here.test"\n[no_such_section]\n', /checked\.toml:3: [^\n]*no_such_section/],
      [`[delivery]\nshaping = "${shaping}"\n`, /checked-shaping\.toml:1: /],
      ['[warmup]\nroute = "nope"\n', /"warmup\.route" is "nope", which is not in "delivery\.routes"/],
      ['[smtp]\nlisten = ["203.0.113.9:0"]\n', /203\.0\.113\.9:0 is not an address of this machine/],
    ] as const) {
      writeFileSync(file, `data_dir = "${join(folder, 'never')}"\n${text}`)
      const { code, stderr, stdout } = await commands.run(['--config', file, 'serve', '--check'])
      if (wrong === undefined) assert.deepEqual([code, stdout], [0, 'The configuration is valid.\n'])
      else {
        assert.equal(code, 1)
        assert.match(stderr, wrong)
      }
      assert.ok(!existsSync(join(folder, 'never')))
    }
  })

  test('exits without an error if the reader of its output closes the pipe', () => {
    const shell = spawnSync(
      'sh',
      [
        '-c',
        '{ "$0" "$1" openapi; echo "$?" >&3; } | head -c 1',
        process.execPath,
        fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url)),
      ],
      { encoding: 'utf8', cwd: folder, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] },
    )
    assert.deepEqual(shell.output, [null, '{', '', '0\n'])
  })
})

describe('user', () => {
  test('adds, lists and removes a user', async () => {
    const added = await commands.json('user', 'add', 'Bob@Other.test', '--name', 'Bob', '--plan', 'growth')
    assert.match(added.id, /^[0-9a-f-]{36}$/)
    assert.match(added.created_at, ISO)
    assert.partialDeepStrictEqual(added, { name: 'Bob', plan: 'growth', subscription_state: 'active' })
    const list = await commands.json<{ id: string; email: string }[]>('user', 'list')
    assert.ok(list.some(({ id }) => id === added.id))
    assert.equal(list.length, 2)
    assert.match((await commands.run(['user', 'list'])).stdout, /ann@owner\.test/)
    await commands.json('user', 'remove', 'bob@other.test')
    assert.equal((await commands.json('user', 'list')).length, 1)
  })

  test('manages operators and members of accounts, and logs who did', async () => {
    const [ann] = await commands.json('user', 'list')
    const own = (account: string) => [{ account, role: 'owner' }]
    assert.partialDeepStrictEqual(ann, { operator: true, accounts: own('ann@owner.test') })
    assert.partialDeepStrictEqual(await commands.json('user', 'add', 'op@other.test', '--operator'), {
      operator: true,
      accounts: own('op@other.test'),
    })
    const invite = ['user', 'invite', 'marketer@other.test', '--role', 'marketer']
    assert.match(await commands.fails(...invite), /needs --account EMAIL and --role ROLE/)
    assert.match(await commands.fails(...invite, '--account', 'nobody@other.test'), /nobody@other\.test/)
    const invited = await commands.json(...invite, '--account', 'ann@owner.test')
    assert.partialDeepStrictEqual(invited, { accounts: [{ account: 'ann@owner.test', role: 'marketer' }] })
    const role = ['user', 'role', 'op@other.test']
    const joined = await commands.json(...role, 'developer', '--account', 'ann@owner.test')
    assert.partialDeepStrictEqual(joined, {
      accounts: [...own('op@other.test'), { account: 'ann@owner.test', role: 'developer' }],
    })
    const { stdout } = await commands.run(['user', 'list'])
    assert.match(stdout, /^EMAIL +NAME +OPERATOR +ROLES +PLAN /)
    assert.match(stdout, /^op@other\.test +op +yes +owner, developer of ann@owner\.test +unlimited /m)
    assert.match(stdout, /^marketer@other\.test +marketer +no +marketer of ann@owner\.test \(invited\) +unlimited /m)
    assert.match(await commands.fails(...role, 'editor', '--account', 'ann@owner.test'), /use owner, developer/)
    await commands.json(...role, 'none', '--account', 'ann@owner.test')
    const last = ['user', 'role', 'ann@owner.test', 'reader', '--account', 'ann@owner.test']
    assert.match(await commands.fails(...last), /needs an owner/)
    const [entry] = await commands.json<object[]>('audit', '--limit', '1')
    assert.partialDeepStrictEqual(entry, {
      account: 'ann@owner.test',
      via: 'command',
      action: 'user role',
      subject: 'op@other.test',
    })
    const set = (...more: string[]) => commands.json('user', 'set', 'op@other.test', ...more)
    assert.partialDeepStrictEqual(await set('--operator', 'no'), { operator: false, summary: 'none' })
    assert.partialDeepStrictEqual(await set('--operator', 'yes', '--summary', 'daily'), {
      operator: true,
      summary: 'daily',
    })
    assert.partialDeepStrictEqual(await set('--summary', 'none'), { operator: true, summary: 'none' })
    assert.match(await commands.fails('user', 'set', 'op@other.test'), /--operator/)
    assert.match(await commands.misused('user', 'set', 'op@other.test', '--operator', 'perhaps'), /perhaps/)
    for (const name of ['op', 'marketer']) await commands.json('user', 'remove', `${name}@other.test`)
  })

  test('user reports an invalid name or request in a sentence', async () => {
    assert.match(await commands.fails('user', 'add', 'ann@owner.test'), /ann@owner\.test/)
    assert.match(await commands.fails('user', 'add', 'ANN@OWNER.TEST'), /exists|already|is there/i)
    assert.match(await commands.fails('user', 'add', 'nobody'), /nobody/)
    assert.match(await commands.fails('user', 'add', 'c@d.test', '--plan', 'golden'), /golden/)
    assert.match(await commands.fails('user', 'remove', 'nobody@owner.test'), /nobody@owner\.test/)
    assert.equal((await commands.json('user', 'list')).length, 1)
  })

  test('user passwd reads the password from standard input and never prints it', async () => {
    const password = 'correct horse battery'
    const running = start(['--config', config, '--json', 'user', 'passwd', 'ann@owner.test'], folder)
    running.child.stdin.end(`${password}\n`)
    assert.equal(await running.ended, 0, running.stderr())
    assert.ok(JSON.parse(running.stdout()))
    assert.doesNotMatch(running.stdout() + JSON.stringify(await commands.json('user', 'list')), /horse|password|scrypt/)
    assert.equal(readFileSync(join(folder, 'data', 'postrider.db')).includes(password), false)
  })

  test('user passwd requires the same password length as the console', async () => {
    const short = start(['--config', config, '--json', 'user', 'passwd', 'ann@owner.test'], folder)
    short.child.stdin.end('123456789\n')
    assert.equal(await short.ended, 1)
    assert.match(short.stderr(), new RegExp(`at least ${SHORTEST_PASSWORD} characters`))
  })

  test('user passwd reads one line, and names both ways to enter a password if the input is empty', async () => {
    const open = start(['--config', config, '--json', 'user', 'passwd', 'ann@owner.test'], folder)
    // As by "podman exec -i" from a keyboard: the input does not end.
    open.child.stdin.write('correct horse battery\n')
    assert.equal(await open.ended, 0, open.stderr())
    const none = start(['--config', config, '--json', 'user', 'passwd', 'ann@owner.test'], folder)
    none.child.stdin.end()
    assert.equal(await none.ended, 1)
    assert.match(
      none.stderr(),
      /No password on standard input; run "postrider user passwd ann@owner\.test" on a terminal to be prompted for it, or use ".* <FILE"/,
    )
  })
})

describe('token', () => {
  const create = (...more: string[]): string[] => [
    'token',
    'create',
    '--user',
    'ann@owner.test',
    '--name',
    'laptop',
    '--duration',
    '6_months',
    ...more,
  ]

  test('token create prints the plaintext once, token list never does', async () => {
    const made = await commands.json(...create('--scopes', 'emails:send,domains:read'))
    assert.deepEqual(Object.keys(made).sort(), ['expires_at', 'id', 'scopes', 'token'])
    assert.match(made.token, /^pr_[0-9A-Za-z]{43}$/)
    assert.deepEqual(made.scopes, ['emails:send', 'domains:read'])
    assert.match(made.expires_at, ISO)
    const months = (Date.parse(made.expires_at) - Date.now()) / (30.44 * 24 * 3_600_000)
    assert.ok(months > 5.8 && months < 6.2, made.expires_at)
    const list = await commands.json('token', 'list', '--user', 'ann@owner.test')
    assert.partialDeepStrictEqual(list, [
      { id: made.id, name: 'laptop', scopes: made.scopes, last_four: made.token.slice(-4), last_used_at: null },
    ])
    assert.doesNotMatch(JSON.stringify(list), new RegExp(made.token))
    assert.deepEqual((await commands.json(...create('--scopes', 'all'))).scopes, [...SCOPES])
  })

  test('"none" removes the agent and the cap of a token, and an invalid value is wrong usage', async () => {
    const { id } = await commands.json(...create('--scopes', 'all', '--daily', 'none'))
    assert.deepEqual(await commands.json('token', 'set', id, '--daily', '5', '--agent', 'shop'), {
      id,
      agent: 'shop',
      daily: 5,
    })
    assert.deepEqual(await commands.json('token', 'set', id, '--daily', 'none', '--agent', 'none'), {
      id,
      agent: null,
      daily: null,
    })
    for (const agent of ['', 'x'.repeat(129), 'two\nlines'])
      for (const argv of [create('--scopes', 'all'), ['token', 'set', id]])
        assert.match(await commands.misused(...argv, '--agent', agent), /1 to 128 characters/)
  })

  test('token revoke revokes a token', async () => {
    const { id } = await commands.json(...create('--scopes', 'all'))
    await commands.json('token', 'revoke', id)
    assert.ok(!(await commands.json<{ id: string }[]>('token', 'list')).some((token) => token.id === id))
    assert.match(await commands.fails('token', 'revoke', id), new RegExp(id))
  })

  test('token create rejects unknown scopes, mcp:use and unknown users', async () => {
    assert.match(await commands.fails(...create('--scopes', 'emails:send,mail')), /"mail"/)
    assert.match(await commands.fails(...create('--scopes', 'mcp:use')), /"mcp:use"/)
    assert.match(await commands.fails(...create('--scopes', '')), /scope/)
    assert.match(await commands.fails(...create('--scopes', 'all', '--user', 'x@y.test')), /x@y\.test/)
    assert.match(await commands.fails('token', 'list', '--user', 'x@y.test'), /x@y\.test/)
  })
})

describe('domain', () => {
  const add = (name: string, ...more: string[]): string[] => [
    'domain',
    'add',
    name,
    '--user',
    'ann@owner.test',
    ...more,
  ]

  test('adds, checks, rotates and removes a domain, and prints its records', async () => {
    const added = await commands.json(
      ...add('Zone.Test', '--purpose', 'transactional', '--region', 'eu'),
      '--mail-from-prefix',
      'rp',
      '--tls-policy',
      'Require',
    )
    assert.partialDeepStrictEqual(added, {
      name: 'zone.test',
      purpose: 'transactional',
      region: 'eu',
      mail_from_prefix: 'rp',
      tls_policy: 'Require',
      status: 'pending',
    })
    assert.match(added.id, /^[0-9a-f-]{36}$/)

    const { records, zone } = await commands.json('domain', 'records', 'zone.test')
    const lines = parseZone(zone)
    assert.deepEqual(
      lines.map(({ name, value }) => ({ name, value })),
      // The addresses of the host are in DNS already.
      records
        .filter(({ record_type }: { record_type: string }) => !['HOST_ADDRESS', 'REVERSE'].includes(record_type))
        .map(({ name, value }: ZoneLine) => ({ name, value })),
    )
    assert.ok(lines.every(({ ttl }) => ttl === 3600))
    const find = (type: string, name: RegExp): ZoneLine[] =>
      lines.filter((line) => line.type === type && name.test(line.name))
    assert.equal(find('TXT', /\._domainkey\.zone\.test$/).length, 2, 'a signing and a standby selector')
    assert.match(find('TXT', /^rp\.zone\.test$/)[0]!.value, /^v=spf1 .*[-~]all$/)
    assert.match(find('MX', /^rp\.zone\.test$/)[0]!.value, /^\d+ mx\.here\.test$/)
    assert.equal(
      find('TXT', /^_dmarc\.zone\.test$/)[0]!.value,
      'v=DMARC1; p=none; rua=mailto:dmarc-reports@rp.zone.test;',
    )
    // Registration returns the same records.
    assert.deepEqual([added.records, added.zone], [records, zone])
    // For a person: the state of each record, and the same lines, required ones apart.
    const text = async (command: string): Promise<string> =>
      (await commands.run(['domain', command, 'zone.test'])).stdout
    const stdout = await text('records')
    for (const line of zone.split('\n')) assert.ok(stdout.includes(`${line}\n`), line)
    const [required, advised] = stdout.split('Recommended:')
    assert.match(required!, /^not checked +SPF +TXT +rp\.zone\.test +v=spf1 /m)
    assert.match(advised!, /^not checked +DMARC[^]*^missing +TLS_RPT/m)
    assert.doesNotMatch(required!, /DMARC|TLS_RPT/)
    assert.doesNotMatch(required!, /missing/, 'nothing is missing before DNS was asked')

    dns.fail(true)
    const silent = await text('check')
    dns.fail(false)
    assert.match(silent, /^zone\.test is pending\.\nDNS did not answer for \d+ of \d+ records/)
    assert.match(silent, /^no answer +SPF /m)
    assert.doesNotMatch(silent, /missing/)
    assert.doesNotMatch(silent, / zone\.test\. \d+ IN TXT "v=spf1/, 'an SPF record may be there already')

    assert.equal((await commands.json('domain', 'check', 'zone.test')).status, 'pending')
    assert.match(await text('records'), /^missing +SPF /m)
    await publish('zone.test')
    const checked = await commands.json('domain', 'check', 'zone.test')
    assert.equal(checked.status, 'active')
    assert.ok(checked.records.every(({ required, verified }: Record<string, boolean>) => verified || !required))

    const selectors = find('TXT', /_domainkey/).map(({ name }) => name)
    await commands.json('domain', 'rotate-dkim', 'zone.test')
    const rotated = await commands.json<{ records: { name: string }[]; zone: string }>('domain', 'records', 'zone.test')
    const keys = (list: { name: string }[]): string[] =>
      list.map(({ name }) => name).filter((name) => name.includes('_domainkey'))
    assert.equal(keys(rotated.records).length, 2)
    const [fresh, ...none] = keys(parseZone(rotated.zone))
    assert.deepEqual(none, [], 'the promoted standby is published, so only the new key is to be added')
    assert.ok(fresh !== undefined && !selectors.includes(fresh))

    assert.match(await commands.fails('domain', 'resume', 'zone.test'), /suspended/)
    assert.ok((await commands.json<{ name: string }[]>('domain', 'list')).some(({ name }) => name === 'zone.test'))
    await commands.json('domain', 'remove', 'zone.test')
    assert.ok(!(await commands.json<{ name: string }[]>('domain', 'list')).some(({ name }) => name === 'zone.test'))
    assert.match(await commands.fails('domain', 'records', 'zone.test'), /zone\.test/)
  })

  test('--user selects one of two domains with the same name', async () => {
    const added = await commands.json(...add('twice.test'))
    assert.partialDeepStrictEqual(added, { region: 'default', mail_from_prefix: 'bounce', tls_policy: 'Optional' })
    await commands.json('user', 'add', 'second@owner.test')
    await commands.json('domain', 'add', 'twice.test', '--user', 'second@owner.test')
    assert.match(await commands.fails('domain', 'records', 'twice.test'), /--user/)
    assert.ok((await commands.json('domain', 'records', 'twice.test', '--user', 'second@owner.test')).zone)
  })

  test('--region selects one of two domains with the same name, even for suppressions', async () => {
    const { open_tracking_enabled, tracking_redirect_mode } = await commands.json(...add('regions.test'))
    assert.deepEqual([open_tracking_enabled, tracking_redirect_mode], [false, 'shared'])
    await commands.json(...add('regions.test'), '--region', 'eu')
    assert.match(await commands.fails('domain', 'records', 'regions.test'), /--region.*ann@owner\.test default.*eu/)
    const checked = await commands.json('domain', 'check', 'regions.test', '--region', 'eu')
    assert.equal(checked.region, 'eu')
    const suppress = ['suppression', 'add', 'x@there.test', '--domain', 'regions.test']
    assert.match(await commands.fails(...suppress), /--region/)
    assert.equal((await commands.json(...suppress, '--region', 'eu')).email, 'x@there.test')
    await commands.misused('suppression', 'list', '--region', 'eu')
    const [, , ...them] = suppress
    assert.equal((await commands.json('suppression', 'remove', ...them, '--region', 'eu')).removed, 1)
    for (const region of ['default', 'eu']) await commands.json('domain', 'remove', 'regions.test', '--region', region)
  })

  test('domain add reports an unusable domain in a sentence', async () => {
    await commands.json(...add('once.test'))
    assert.match(await commands.fails(...add('once.test')), /once\.test/)
    for (const name of ['com', 'co.uk', '[127.0.0.1]', '192.0.2.1', 'no domain', 'localhost', 'a..b.test'])
      await commands.fails(...add(name))
    await commands.fails(...add('mars.test', '--region', 'mars'))
    await commands.fails(...add('label.test', '--mail-from-prefix', 'two.labels'))
    await commands.fails('domain', 'add', 'x.test', '--user', 'nobody@owner.test')
    assert.ok(
      !(await commands.json<{ name: string }[]>('domain', 'list')).some(({ name }) => /mars|label|^x\.test/.test(name)),
    )
  })
})

/** mail.test is verified, waiting.test is not. The first suite that needs them creates them. */
const sending = async (): Promise<void> => {
  for (const name of ['mail.test', 'waiting.test'])
    await commands.json('domain', 'add', name, '--user', 'ann@owner.test')
  await publish('mail.test')
  await commands.json('domain', 'check', 'mail.test')
}
let domains: Promise<void> | undefined
const sendingDomains = (): Promise<void> => (domains ??= sending())

describe('queue and send', () => {
  before(sendingDomains)
  const send = (to: string, from = 'ann@mail.test'): string[] => [
    'send',
    '--from',
    from,
    '--to',
    to,
    '--subject',
    'Hällo',
    '--text',
    'One <two> & three',
  ]

  test('queue list reports an empty queue', async () => {
    assert.deepEqual(await commands.json('queue', 'list'), [])
    for (const argv of [
      ['show', 'x'],
      ['retry', 'x'],
      ['hold', 'x'],
      ['release', 'x'],
      ['drop', 'x'],
    ])
      assert.match(await commands.fails('queue', ...argv), /\bx\b/)
    assert.deepEqual(await commands.json('queue', 'retry', '--all'), { retried: 0, on_hold: 0 })
  })

  test('send delivers without a running server and prints the SMTP transcript', async () => {
    const mail = await commands.json(...send('bob@there.test'))
    assert.equal(mail.status, 'delivered')
    assert.equal(mail.recipients[0].smtp_code, 250)
    const { dialogue } = mail.recipients[0]
    for (const line of [/220 mx\.test/, /EHLO mx\.here\.test/, /STARTTLS/, /MAIL FROM:<\S+@bounce\.mail\.test>/])
      assert.match(dialogue, line)
    assert.match(dialogue, /RCPT TO:<bob@there\.test>[\s\S]*354[\s\S]*250/)
    const heard = exchanger.heard.at(-1)!
    assert.equal(heard.tls, true)
    assert.match(heard.message, /^DKIM-Signature:[\s\S]*d=mail\.test/m)
    assert.match(heard.message, /^Content-Type: text\/plain[\s\S]*One <two> & three/m)
    const person = await commands.run(send('bob@there.test'))
    assert.equal(person.code, 0, person.stderr)
    assert.match(person.stdout, /bob@there\.test: delivered, 1 attempt[\s\S]*EHLO mx\.here\.test/)
    assert.deepEqual(await commands.json('queue', 'list'), [])
  })

  test('send exits with 1 and prints the reply if the receiving server rejects the email', async () => {
    exchanger.script = { tls: true, answer: (line) => (line.startsWith('RCPT') ? '550 5.1.1 No such user' : undefined) }
    const { code, stdout } = await commands.run(['--json', ...send('bob@there.test')])
    exchanger.script = { tls: true }
    assert.equal(code, 1)
    const mail = JSON.parse(stdout)
    assert.equal(mail.status, 'bounced')
    assert.partialDeepStrictEqual(mail.recipients[0], { smtp_code: 550, enhanced_code: '5.1.1', status: 'bounced' })
    assert.match(mail.recipients[0].dialogue, /550 5\.1\.1 No such user/)
  })

  test('queue lists, shows, holds, releases, retries and drops a deferred email', async () => {
    exchanger.script = {
      tls: true,
      answer: (line) => (line.startsWith('RCPT') ? '451 4.7.1 Come back later' : undefined),
    }
    const deferred = await commands.run(['--json', ...send('later@there.test')])
    exchanger.script = { tls: true }
    assert.equal(deferred.code, 1)
    const { id } = JSON.parse(deferred.stdout)
    const state = async (): Promise<Record<string, unknown>> => (await commands.json('queue', 'show', id)).recipients[0]
    assert.partialDeepStrictEqual(await state(), {
      status: 'queued',
      attempts: 1,
      smtp_code: 451,
      address: 'later@there.test',
    })
    assert.deepEqual(
      (await commands.json<{ id: string }[]>('queue', 'list')).map((mail) => mail.id),
      [id],
    )
    assert.equal((await commands.json('queue', 'list', '--domain', 'mail.test')).length, 1)
    assert.deepEqual(await commands.json('queue', 'list', '--domain', 'waiting.test'), [])

    await commands.json('queue', 'hold', id)
    assert.equal((await state())['status'], 'held')
    assert.deepEqual(await commands.json('queue', 'retry', '--all'), { retried: 0, on_hold: 0 })
    await commands.fails('queue', 'hold', id)
    await commands.json('queue', 'release', id)
    assert.equal((await state())['status'], 'queued')
    assert.deepEqual(await commands.json('queue', 'retry', id), { retried: 1, on_hold: 0 })
    assert.ok(Date.parse(String((await state())['next_attempt_at'])) <= Date.now())
    await commands.json('queue', 'drop', id)
    assert.deepEqual(await commands.json('queue', 'list'), [])
    assert.equal((await commands.json('queue', 'show', id)).status, 'failed')
    await commands.fails('queue', 'drop', id)
  })

  test('every command reports that a recipient domain is on hold, until it is released', async () => {
    exchanger.script = { tls: true, answer: (line) => (line.startsWith('RCPT') ? '451 4.7.1 Later' : undefined) }
    const { id } = JSON.parse((await commands.run(['--json', ...send('held@There.test')])).stdout)
    const other = JSON.parse((await commands.run(['--json', ...send('free@free.test')])).stdout)
    exchanger.script = { tls: true }
    const lane = ['--lane', 'THERE.test']
    const run = async (...argv: string[]): Promise<string> => {
      const { code, stderr, stdout } = await commands.run(['queue', ...argv])
      assert.equal(code, 0, stderr)
      return stdout
    }
    assert.match(
      await run('hold', ...lane),
      /there\.test is on hold, with 1 recipient queued\. New email to it is held as well/,
    )
    const [shown] = (await commands.json<Record<string, unknown>[]>('queue', 'lanes')).filter(({ hold }) => hold)
    assert.partialDeepStrictEqual(shown, {
      domain: 'there.test',
      hold: true,
      queued: 1,
      active: 0,
      held: 0,
      held_by: [],
    })
    assert.match(await run('lanes'), /there\.test +on hold +1 /)
    assert.match(await run('list'), /held@there\.test +queued +1 +on hold[\s\S]*there\.test +on hold +1 /)
    assert.match(await run('show', id), /queued, 1 attempt, on hold with its recipient domain/)
    assert.equal((await commands.json('queue', 'show', id)).recipients[0].on_hold, true)
    assert.equal((await commands.json('queue', 'show', other.id)).recipients[0].on_hold, false)

    assert.deepEqual(await commands.json('queue', 'retry', id), { retried: 0, on_hold: 1 })
    for (const which of [[id], lane]) {
      const said = await run('retry', ...which)
      assert.doesNotMatch(said, /within a second/)
      assert.match(said, /1 recipient at there\.test not retried: [^"]*"postrider queue release --lane there\.test"/)
    }
    assert.deepEqual(await commands.json('queue', 'retry', '--all'), { retried: 1, on_hold: 1 })
    const all = await run('retry', '--all')
    assert.match(all, /^1 recipient due now\.[^\n]*\n1 recipient at there\.test not retried/)

    const fresh = await commands.run(['--json', ...send('fresh@there.test')])
    assert.equal(fresh.code, 1)
    assert.partialDeepStrictEqual(JSON.parse(fresh.stdout).recipients[0], {
      status: 'queued',
      attempts: 0,
      on_hold: true,
    })
    await commands.json('queue', 'drop', JSON.parse(fresh.stdout).id)
    assert.match(await run('release', ...lane), /no longer on hold\. 1 recipient queued/)
    assert.match(await commands.fails('queue', 'release', ...lane), /there\.test is not on hold/)
    assert.deepEqual(await commands.json('queue', 'retry', id), { retried: 1, on_hold: 0 })
    assert.match(await commands.fails('queue', 'hold', '--lane', 'no domain'), /"no domain" is not a recipient domain/)
    assert.partialDeepStrictEqual(await commands.json('queue', 'drop', ...lane), { domain: 'there.test', queued: 0 })
    assert.equal((await commands.json('queue', 'show', id)).status, 'failed')
    assert.match(await commands.fails('queue', 'drop', ...lane), /The queue has no email to there\.test/)
    await commands.json('queue', 'drop', other.id)
    // An email that is held itself is deleted with its domain.
    exchanger.script = { tls: true, answer: (line) => (line.startsWith('RCPT') ? '451 4.7.1 Later' : undefined) }
    const again = JSON.parse((await commands.run(['--json', ...send('held@there.test')])).stdout)
    exchanger.script = { tls: true }
    await commands.json('queue', 'hold', again.id)
    await commands.json('queue', 'hold', ...lane)
    assert.match(await run('release', again.id), /released\.\nthere\.test: the domain is on hold until/)
    await commands.json('queue', 'hold', again.id)
    await commands.json('queue', 'release', ...lane)
    assert.equal((await commands.json('queue', 'show', again.id)).recipients[0].status, 'queued')
    await commands.json('queue', 'drop', again.id)
  })

  test('send reports an unusable sender or recipient in a sentence', async () => {
    assert.match(await commands.fails(...send('nobody')), /nobody/)
    assert.match(await commands.fails(...send('bob@there.test', 'ann@elsewhere.test')), /elsewhere\.test/)
    assert.match(await commands.fails(...send('bob@there.test', 'ann@waiting.test')), /active/)
    assert.deepEqual(await commands.json('queue', 'list'), [])
  })
})

describe('suppression', () => {
  before(sendingDomains)
  const onDomain = ['--domain', 'mail.test']

  test('an added suppression blocks email, a removed one does not', async () => {
    const added = await commands.json('suppression', 'add', 'No.Mail@There.test', ...onDomain)
    assert.match(added.created_at, ISO)
    assert.partialDeepStrictEqual(added, {
      email: 'no.mail@there.test',
      domain: 'mail.test',
      reason: 'manual',
      source: 'manual',
      scope: 'all',
      expires_at: null,
    })
    const letter = ['send', '--from', 'ann@mail.test', '--subject', 'x', '--to']
    assert.match(await commands.fails(...letter, 'no.mail@there.test'), /suppressed/)
    const listed = await commands.json<{ email: string }[]>('suppression', 'list')
    assert.equal(listed[0]?.email, 'no.mail@there.test', 'newest first')
    assert.deepEqual(await commands.json('suppression', 'list', ...onDomain), listed)
    assert.deepEqual(await commands.json('suppression', 'list', '--domain', 'waiting.test'), [])
    // Once more changes the entry, it makes no second one.
    const again = await commands.json('suppression', 'add', 'no.mail@there.test', ...onDomain, '--scope', 'marketing')
    assert.deepEqual([again.id, again.scope], [added.id, 'marketing'])
    assert.equal((await commands.json('suppression', 'list', ...onDomain)).length, listed.length)
    // A campaign's suppression stops no transactional mail.
    assert.equal((await commands.json(...letter, 'no.mail@there.test')).status, 'delivered')

    const person = await commands.run(['suppression', 'list'])
    assert.match(person.stdout, /ADDRESS[\s\S]*no\.mail@there\.test +mail\.test +marketing +manual/)
    const removed = await commands.json('suppression', 'remove', 'NO.MAIL@there.test', ...onDomain)
    assert.deepEqual(removed, { email: 'no.mail@there.test', domain: 'mail.test', removed: 1 })
    assert.match(await commands.fails('suppression', 'remove', 'no.mail@there.test', ...onDomain), /not suppressed/)
  })

  test('an operator can remove the suppression of a hard bounce', async () => {
    exchanger.script = { tls: true, answer: (line) => (line.startsWith('RCPT') ? '550 5.1.1 No such user' : undefined) }
    const letter = ['send', '--from', 'ann@mail.test', '--subject', 'x', '--to', 'gone@there.test']
    await commands.run(['--json', ...letter])
    exchanger.script = { tls: true }
    const [entry] = await commands.json<Record<string, string>[]>('suppression', 'list', ...onDomain)
    assert.partialDeepStrictEqual(entry, {
      email: 'gone@there.test',
      reason: 'hard_bounce',
      source: 'smtp',
      scope: 'all',
    })
    assert.match(await commands.fails(...letter), /suppressed/)
    await commands.json('suppression', 'remove', 'gone@there.test', ...onDomain)
    assert.equal((await commands.json(...letter)).status, 'delivered')
  })

  test('suppression reports invalid arguments in a sentence', async () => {
    assert.match(await commands.fails('suppression', 'add', 'nobody', ...onDomain), /nobody/)
    assert.match(
      await commands.fails('suppression', 'add', 'a@there.test', '--domain', 'no.such.test'),
      /no\.such\.test/,
    )
    assert.match(await commands.fails('suppression', 'list', '--domain', 'no.such.test'), /no\.such\.test/)
    assert.match(await commands.fails('suppression', 'remove', 'never@there.test', ...onDomain), /never@there\.test/)
    await commands.misused('suppression', 'add', 'a@there.test')
    await commands.misused('suppression', 'add', 'a@there.test', ...onDomain, '--scope', 'some')
  })
})

describe('openapi', () => {
  test('openapi prints one document, with --json on one line', async () => {
    const document = await commands.json('openapi')
    assert.match(document.openapi, /^3\./)
    for (const path of ['/tokens', '/outbound-emails', '/domains/{domain}/records'])
      assert.ok(document.paths[path], `${path} is not among ${Object.keys(document.paths).join(' ')}`)
    assert.deepEqual(JSON.parse((await commands.run(['openapi'])).stdout), document)
  })
})

describe('completion', () => {
  const scripts: Record<string, string> = {}
  before(async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, stdout, stderr } = await commands.run(['completion', shell], { bare: true })
      assert.deepEqual([code, stderr], [0, ''])
      writeFileSync((scripts[shell] = join(folder, `completion.${shell}`)), stdout)
    }
  })

  for (const shell of ['bash', 'zsh', 'fish'])
    test(`${shell} reads its script`, (t) => {
      if (spawnSync(shell, ['--version']).error) return t.skip(`${shell} is not installed`)
      const checked = spawnSync(shell, ['-n', scripts[shell]!], { encoding: 'utf8' })
      assert.deepEqual([checked.status, checked.stderr], [0, ''])
    })

  /** The completions of the last of these words for bash, as its script gets them. */
  const offered = async (...words: string[]): Promise<string[]> => {
    const { stdout } = await commands.run(['completion', 'bash', '--', ...words], { bare: true })
    return stdout.split('\n').filter(Boolean)
  }

  test('offers commands, subcommands and options', async () => {
    assert.deepEqual(await offered('do'), ['domain', 'doctor'])
    assert.deepEqual(await offered('domain', 'ro'), ['rotate-dkim'])
    assert.deepEqual(await offered('--json', 'token', 'cr'), ['create'])
    assert.deepEqual(await offered('domain', 'add', '--tls'), ['--tls-policy'])
    assert.deepEqual(await offered('queue', 'retry', '--a'), ['--all'])
    assert.deepEqual(await offered('--con'), ['--config'])
    assert.ok((await offered('')).includes('serve'))
  })

  test('skips the value of an option', async () => {
    assert.deepEqual(await offered('--config', './postrider.toml', 'use'), ['user'])
  })

  test('offers the values of options and arguments, and leaves files to the shell', async () => {
    assert.deepEqual(await offered('domain', 'add', 'x.test', '--purpose', 'm'), ['marketing'])
    assert.deepEqual(await offered('domain', 'add', 'x.test', '--purpose', '=', 'm'), ['marketing'])
    assert.deepEqual(await offered('domain', 'add', 'x.test', '--purpose=m'), ['marketing'])
    assert.deepEqual(await offered('domain', 'add', 'x.test', '--purpose', '='), ['transactional', 'marketing', 'both'])
    assert.deepEqual(await offered('completion', ''), ['bash', 'zsh', 'fish'])
    assert.deepEqual(await offered('help', 'ex'), ['export'])
    assert.deepEqual(await offered('contacts', 'import', 'Readers', 'a list.'), [':file'])
    assert.deepEqual(await offered('--config', 'a list.'), [':file'])
    assert.deepEqual(await offered('dev', '--data', 'a l'), [':dir'])
    // There are no completions for the name of an audience, an address or an id.
    assert.deepEqual(await offered('contacts', 'import', 'a l'), [])
    assert.deepEqual(await offered('user', 'add', '--name', 'a l'), [])
  })

  test('the script of bash completes files with spaces', (t) => {
    if (spawnSync('bash', ['--version']).error) return t.skip('bash is not installed')
    writeFileSync(join(folder, 'a list.csv'), '')
    mkdirSync(join(folder, 'a list of mine'))
    const completed = (answer: string): string[] => {
      const typed = 'COMP_WORDS=(postrider --config "a l"); COMP_CWORD=2; _postrider postrider'
      const line = `postrider() { echo ${answer}; }; source "$0"; ${typed}; printf "%s\\n" "\${COMPREPLY[@]}"`
      return execFileSync('bash', ['--norc', '-c', line, scripts['bash']!], { encoding: 'utf8', cwd: folder })
        .trim()
        .split('\n')
    }
    assert.deepEqual(completed(':file').toSorted(), ['a list of mine', 'a list.csv'])
    assert.deepEqual(completed(':dir'), ['a list of mine'])
    assert.deepEqual(completed('"a large one"'), ['a large one'])
  })

  test('zsh and fish get every command with its description', async () => {
    for (const [shell, sign] of [
      ['zsh', ':'],
      ['fish', '\t'],
    ]) {
      const { stdout } = await commands.run(['completion', shell!, '--', ''], { bare: true })
      const expected = createProgram({}).commands.map((each) => `${each.name()}${sign}${each.description()}\n`)
      assert.equal(stdout, expected.join(''))
    }
  })
})

describe('the configuration', () => {
  test('is found by --config, $POSTRIDER_CONFIG, and with a message in ./postrider.toml if there is no system-wide one', async () => {
    const dataOf = async (env: Record<string, string>, ...argv: string[]): Promise<string[]> => {
      const { code, stdout, stderr } = await commands.run([...argv, '--json', 'domain', 'list'], { env, bare: true })
      assert.equal(code, 0, stderr)
      return JSON.parse(stdout).map(({ name }: { name: string }) => name)
    }
    for (const name of ['one', 'two']) {
      const path = join(folder, name === 'one' ? 'postrider.toml' : 'two.toml')
      writeFileSync(path, `data_dir = ${JSON.stringify(makeInstallation(join(folder, `data-${name}`)))}`)
      await commands.json('--config', path, 'user', 'add', 'ann@owner.test')
      await commands.json('--config', path, 'domain', 'add', `${name}.test`, '--user', 'ann@owner.test')
    }
    const two = join(folder, 'two.toml')
    assert.deepEqual(await dataOf({}), ['one.test'])
    assert.deepEqual(await dataOf({ POSTRIDER_CONFIG: two }), ['two.test'])
    assert.deepEqual(await dataOf({ POSTRIDER_CONFIG: '' }), ['one.test'], 'an empty variable names none')
    assert.deepEqual(await dataOf({ POSTRIDER_CONFIG: two }, '--config', join(folder, 'postrider.toml')), ['one.test'])
    assert.deepEqual(await dataOf({ POSTRIDER_DATA_DIR: join(folder, 'data-two') }), ['two.test'])
  })
})
