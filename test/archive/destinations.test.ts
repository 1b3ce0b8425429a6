import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { openDestination, type DestinationOptions } from '../../src/archive/destinations/destination.ts'
import { DAY, systemClock } from '../../src/base/clock.ts'
import { targetOf } from '../../src/base/backup-target.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { isOver, until } from '../kit/until.ts'
import { destinationSuite, documentedScript, faultOf, namesIn, pieces } from './destination-suite.ts'

const work = temporaryDirectory('destinations')
const folder = (name: string): string => {
  const path = join(work, name)
  mkdirSync(path)
  return path
}
const deps = { clock: systemClock }

describe('a directory', () => {
  const kept = folder('directory')
  destinationSuite({
    destination: () => openDestination(kept, {}, deps),
    everything: () => readdirSync(kept).sort(),
  })

  test('is not created if it does not exist, because its disk may not be mounted', async () => {
    const unmounted = openDestination(join(work, 'unmounted'), {}, deps)
    await assert.rejects(unmounted.put('a.age', pieces(Buffer.from('a'))), faultOf('bucket', /mounted/))
    await assert.rejects(namesIn(unmounted), faultOf('bucket'))
    await assert.rejects(unmounted.sizeOf('a.age'), faultOf('bucket'))
    await assert.rejects(unmounted.remove('a.age'), faultOf('bucket'))
  })

  test('ignores links and directories, and removes drafts of killed uploads after a day', async () => {
    const path = folder('others')
    mkdirSync(join(path, 'folder.age'))
    symlinkSync('/etc/hostname', join(path, 'link.age'))
    const [old, young] = ['.postrider-old.age.part', '.postrider-new.age.part'] as const
    const others = ['.old.age.part', '.other', '.postrider-cache']
    for (const name of [old, young, ...others]) writeFileSync(join(path, name), 'x')
    const now = Date.now() / 1000
    for (const name of [old, ...others]) utimesSync(join(path, name), now, now - (DAY / 1000) * 2)
    const directory = openDestination(path, {}, deps)
    await directory.put('a.age', pieces(Buffer.from('a')))
    assert.deepEqual(await namesIn(directory), ['a.age'])
    assert.deepEqual(readdirSync(path).sort(), [...others, young, 'a.age', 'folder.age', 'link.age'].sort())
    await assert.rejects(buffer(directory.get('link.age')), faultOf('missing'))
  })
})

describe('a command', () => {
  const kept = folder('command')
  const script = join(work, 'keep.sh')
  writeFileSync(script, documentedScript('keep-backup'))
  destinationSuite({
    destination: () => openDestination(`exec:/bin/sh '${script}' "${kept}" {action} {name}`, {}, deps),
    // A killed command leaves its draft.
    everything: () =>
      readdirSync(kept)
        .filter((name) => !name.endsWith('.part'))
        .sort(),
    missing: 'command',
  })

  test('that fails or cannot be started is reported with its standard error, without possible secrets', async () => {
    const put = (line: string): Promise<unknown> =>
      openDestination(`${line} {action} {name}`, {}, deps).put('a.age', pieces(Buffer.alloc(300_000)))
    await assert.rejects(put("exec:/bin/sh -c 'echo no room for secret >&2; exit 3' hidden"), (thrown: Error) => {
      assert.ok(!thrown.message.includes('hidden'))
      return faultOf('command', /^exec:\/bin\/sh: the command exited with status 3: "no room for secret"/)(thrown)
    })
    await assert.rejects(
      put('exec:/no/such/program'),
      faultOf('command', /cannot be started \(ENOENT\): it does not exist;/),
    )
    const closed = join(work, 'closed')
    writeFileSync(closed, '')
    await assert.rejects(
      put(`exec:${closed}`),
      faultOf('command', /\(EACCES\): .* this user has no permission to run it;/),
    )
    await assert.rejects(put("exec:/bin/sh -c 'kill -9 $$'"), faultOf('command', /was killed by SIGKILL/))
    for (const action of ['list', 'get', 'remove'] as const) {
      const failing = openDestination("exec:/bin/sh -c 'echo no $0 >&2; exit 1' {action} {name}", {}, deps)
      const run = {
        list: () => namesIn(failing),
        get: () => buffer(failing.get('a')),
        remove: () => failing.remove('a'),
      }
      await assert.rejects(run[action](), faultOf('command', new RegExp(`exited with status 1: "no ${action}"`)))
    }
  })

  test('that exits with 0 but did not read or did not store the whole backup has failed', async () => {
    const put = (line: string): Promise<unknown> =>
      openDestination(line, {}, deps).put('a.age', pieces(Buffer.alloc(300_000)))
    for (const early of ['exec:/bin/sh -c true {action} {name}', "exec:/bin/sh -c 'head -c 100' {action} {name}"])
      await assert.rejects(put(early), faultOf('command', /exited before it had read the whole backup/))
    const part = `exec:/bin/sh -c 'case $0 in put) cat >/dev/null ;; list) echo "$1 100" ;; esac' {action} {name}`
    await assert.rejects(
      put(part.replace('"$1 100"', 'a.age 100')),
      faultOf('damaged', /has 100 bytes instead of 300000/),
    )
    await assert.rejects(put(part.replace('"$1 100"', 'b.age 100')), faultOf('damaged', /has no bytes instead of/))
  })

  test('that makes no progress is killed with all its processes', async () => {
    const slow = { clock: systemClock, patience: 300 }
    const pidFile = join(work, 'pid')
    const hanging = openDestination(
      `exec:/bin/sh -c 'sleep 1000 & echo $! > ${pidFile}; wait' {action} {name}`,
      {},
      slow,
    )
    for (const run of [
      () => hanging.put('a.age', pieces(Buffer.alloc(1_000_000))),
      () => namesIn(hanging),
      () => hanging.remove('a.age'),
    ]) {
      await assert.rejects(run(), faultOf('slow', /made no progress/))
      const pid = Number(readFileSync(pidFile, 'utf8'))
      await until(() => isOver(pid))
    }
  })

  test('is split into words at spaces outside quotes, and not run by a shell', () => {
    const wordsOf = (line: string): unknown => {
      const target = targetOf(`exec:${line} {action} {name}`)
      return target.kind === 'command' && target.words
    }
    assert.deepEqual(wordsOf(` a 'b c'"d" e\\ f "g\\"h" '\\' "" $HOME;ls `), [
      'a',
      'b cd',
      'e f',
      'g"h',
      '\\',
      '',
      '$HOME;ls',
      '{action}',
      '{name}',
    ])
    for (const wrong of ["a 'b", 'a "b']) assert.throws(() => wordsOf(wrong), OperatorError)
    for (const wrong of ['', '  ']) assert.throws(() => targetOf(`exec:${wrong}`), OperatorError)
  })
})

test('keeps the bandwidth limit', async () => {
  const clock = new ManualClock()
  const paced = openDestination(folder('paced'), { bandwidth: 1000 }, { clock })
  const begun = clock.now()
  const sending = paced.put('a.age', pieces(Buffer.alloc(5000), 1000))
  let ended = false
  void sending.then(() => (ended = true))
  while (!ended) {
    clock.advance(100)
    await new Promise((done) => setImmediate(done))
  }
  assert.ok(clock.now() - begun >= 4000, `${clock.now() - begun} ms`)
})

describe('rejects a wrong target and names the setting and the fix:', () => {
  const file = (name: string, content: string): string => {
    const path = join(work, name)
    writeFileSync(path, content)
    return path
  }
  const s3 = { key_file: file('s3.key', 'AKID\nhush\n') }

  const CASES: [target: string, options: DestinationOptions, sentence: RegExp][] = [
    ['backups', {}, /^"backups" is not a supported destination; .*absolute path/],
    ['ftp://host/path', {}, /is not a supported destination; .*s3:\/\//],
    ['sftp://user:hush@host/path', {}, /^"sftp:\/\/user@host\/path" is not a supported destination; .*ssh or rclone/],
    ['s3://b', { s3 }, /is not s3:\/\/BUCKET/],
    ['s3://bucket:80/a', { s3 }, /s3:\/\/BUCKET/],
    ['s3://key:hush@bucket', { s3 }, /^"s3:\/\/key@bucket" contains a password/],
    ['s3://bucket/a%20b', { s3 }, /invalid prefix; use letters/],
    [
      's3://bucket?colour=red',
      { s3 },
      /has the unknown parameter "colour"; use one of endpoint, region, style, key_file/,
    ],
    ['s3://bucket', {}, /"backup\.s3\.key_file" is missing/],
    ['s3://bucket', { s3: { key_file: 'key' } }, /absolute path/],
    ['s3://bucket', { s3: { key_file: join(work, 'none') } }, /cannot be read \(ENOENT\)/],
    ['s3://bucket', { s3: { key_file: file('one-line', 'hush\n') } }, /two lines/],
    ['s3://bucket', { s3: { ...s3, endpoint: 'http://storage.example' } }, /"backup\.s3\.endpoint".*https/],
    ['s3://bucket', { s3: { ...s3, endpoint: 'storage' } }, /"backup\.s3\.endpoint"/],
    ['s3://bucket?style=vhost', { s3 }, /"backup\.s3\.style"/],
    ['s3://bucket?endpoint=https://[2001:db8::1]:9000&style=host', { s3 }, /"backup\.s3\.style" is "host".*use "path"/],
    [
      's3://bucket?endpoint=https://192.0.2.1&style=host',
      { s3 },
      /an IP address such as 192\.0\.2\.1 has no subdomains/,
    ],
    ['s3://my.bucket?style=host', { s3 }, /"my\.bucket" is not a single host name label/],
    ['s3://Bucket?style=host', { s3 }, /"Bucket" is not a single host name label/],
    ['s3://my_bucket?style=host', { s3 }, /"my_bucket" is not a single host name label/],
    ['s3://bucket', { s3: { ...s3, region: 'a/b' } }, /"backup\.s3\.region"/],
    ['exec:', {}, /exec:COMMAND/],
    ['exec:/usr/bin/restic backup --stdin', {}, /^"exec:\/usr\/bin\/restic" is not told what to do; add \{action\}/],
  ]
  for (const [target, options, sentence] of CASES)
    test(`${target} ${String(sentence)}`, () => {
      assert.throws(
        () => openDestination(target, options, deps),
        (thrown) => {
          assert.ok(thrown instanceof OperatorError, String(thrown))
          assert.match(thrown.message, sentence)
          assert.doesNotMatch(thrown.message, /hush/)
          return true
        },
      )
    })

  test('accepts correct targets, and shows them as configured', () => {
    for (const [target, options] of [
      ['s3://bucket/some/prefix', { s3 }],
      ['s3://bucket/?endpoint=https://storage.example&region=garage&style=host', { s3 }],
      ['s3://bucket?endpoint=http://127.0.0.1:9000', { s3 }],
      [work, {}],
    ] as const)
      assert.equal(openDestination(target, options, deps).title, target)
  })
})
