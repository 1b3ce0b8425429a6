import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, describe, test } from 'node:test'
import { openPlace, type PlaceOptions } from '../../src/archive/places/place.ts'
import { DAY, systemClock } from '../../src/base/clock.ts'
import { targetOf } from '../../src/base/backup-target.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { ManualClock } from '../kit/clock.ts'
import { isOver, until } from '../kit/until.ts'
import { faultOf, keepScript, namesIn, pieces, placeSuite } from './place-suite.ts'

const room = mkdtempSync(join(tmpdir(), 'postrider-places-'))
after(() => rmSync(room, { recursive: true, force: true }))
const folder = (name: string): string => {
  const path = join(room, name)
  mkdirSync(path)
  return path
}
const deps = { clock: systemClock }

describe('a directory', () => {
  const kept = folder('directory')
  placeSuite({ place: () => openPlace(kept, {}, deps), everything: () => readdirSync(kept).sort() })

  test('that is not there is not made, for its disk may only not be mounted (B8)', async () => {
    const place = openPlace(join(room, 'unmounted'), {}, deps)
    await assert.rejects(place.put('a.age', pieces(Buffer.from('a'))), faultOf('bucket', /mounted/))
    await assert.rejects(namesIn(place), faultOf('bucket'))
    await assert.rejects(place.head('a.age'), faultOf('bucket'))
    await assert.rejects(place.remove('a.age'), faultOf('bucket'))
  })

  test('links and folders in it are not backups, and parts that a kill left go after a day (B8)', async () => {
    const path = folder('others')
    mkdirSync(join(path, 'folder.age'))
    symlinkSync('/etc/hostname', join(path, 'link.age'))
    const [old, young] = ['.postrider-old.age.part', '.postrider-new.age.part'] as const
    const others = ['.old.age.part', '.other', '.postrider-cache']
    for (const name of [old, young, ...others]) writeFileSync(join(path, name), 'x')
    const now = Date.now() / 1000
    for (const name of [old, ...others]) utimesSync(join(path, name), now, now - (DAY / 1000) * 2)
    const place = openPlace(path, {}, deps)
    await place.put('a.age', pieces(Buffer.from('a')))
    assert.deepEqual(await namesIn(place), ['a.age'])
    assert.deepEqual(readdirSync(path).sort(), [...others, young, 'a.age', 'folder.age', 'link.age'].sort())
    await assert.rejects(buffer(place.get('link.age')), faultOf('missing'))
  })
})

describe('a command', () => {
  const kept = folder('command')
  const script = join(room, 'keep.sh')
  writeFileSync(script, keepScript)
  const line = `exec:/bin/sh '${script}' "${kept}" {action} {name} {from}`
  placeSuite({
    place: () => openPlace(line, {}, deps),
    everything: () => {
      // What a killed command left behind is its own affair.
      const names = readdirSync(kept).filter((name) => !name.endsWith('.part'))
      return names.sort()
    },
  })

  test('that ends badly, or cannot be started, says so in one sentence without what may be secret (B8)', async () => {
    const put = (target: string): Promise<unknown> =>
      openPlace(target, {}, deps).put('a.age', pieces(Buffer.alloc(300_000)))
    await assert.rejects(put("exec:/bin/sh -c 'echo no room for secret >&2; exit 3' hidden"), (thrown: Error) => {
      assert.ok(!thrown.message.includes('hidden'))
      return faultOf('command', /^exec:\/bin\/sh: the command ended with 3 and said "no room for secret"/)(thrown)
    })
    await assert.rejects(
      put('exec:/no/such/program'),
      faultOf('command', /cannot be started \(ENOENT\): it is not there;/),
    )
    const closed = join(room, 'closed')
    writeFileSync(closed, '')
    await assert.rejects(put(`exec:${closed}`), faultOf('command', /\(EACCES\): .* this user may not run it;/))
    await assert.rejects(put("exec:/bin/sh -c 'kill -9 $$'"), faultOf('command', /ended with SIGKILL/))
    // One that ends well without having read the backup has not stored it.
    for (const early of ['exec:/bin/true', 'exec:/usr/bin/head -c 100'])
      await assert.rejects(put(early), faultOf('command', /ended before it had read all of the backup/))
  })

  test('without {action} only stores (B8)', async () => {
    const file = join(room, 'stored')
    const place = openPlace(`exec:/bin/sh -c 'cat > "$0-$1"' ${file} {name}`, {}, deps)
    assert.equal(place.writesOnly, true)
    await place.put('a.age', pieces(Buffer.from('mail')))
    assert.equal((await buffer(openPlace(room, {}, deps).get('stored-a.age'))).toString(), 'mail')
    for (const asked of [namesIn(place), place.head('a.age'), place.remove('a.age'), buffer(place.get('a.age'))])
      await assert.rejects(asked, faultOf('command', /only stores/))
    assert.equal(openPlace(line, {}, deps).writesOnly, false)
  })

  test('that stands still is ended with all that it started (B8)', async () => {
    const slow = { clock: systemClock, patience: 300 }
    const reading = join(room, 'pid')
    const place = openPlace(`exec:/bin/sh -c 'sleep 1000 & echo $! > ${reading}; wait' {action}`, {}, slow)
    for (const run of [
      () => place.put('a.age', pieces(Buffer.alloc(1_000_000))),
      () => namesIn(place),
      () => place.remove('a.age'),
    ]) {
      await assert.rejects(run(), faultOf('slow', /stood still/))
      const pid = Number((await buffer(openPlace(room, {}, deps).get('pid'))).toString())
      await until(() => isOver(pid))
    }
  })

  test('is cut into words by quotes and backslashes, and no shell reads it (B8)', () => {
    const wordsOf = (line: string): unknown => {
      const target = targetOf(`exec:${line}`)
      return target.kind === 'exec' && target.words
    }
    assert.deepEqual(wordsOf(` a 'b c'"d" e\\ f "g\\"h" '\\' "" $HOME;ls `), [
      'a',
      'b cd',
      'e f',
      'g"h',
      '\\',
      '',
      '$HOME;ls',
    ])
    for (const wrong of ['', '  ', "a 'b", 'a "b']) assert.throws(() => wordsOf(wrong), OperatorError)
  })
})

test('a limit of octets in a second is kept over what is sent and fetched (B8)', async () => {
  const clock = new ManualClock()
  const place = openPlace(folder('paced'), { bandwidth: 1000 }, { clock })
  const begun = clock.now()
  const sending = place.put('a.age', pieces(Buffer.alloc(5000), 1000))
  let ended = false
  void sending.then(() => (ended = true))
  while (!ended) {
    clock.advance(100)
    await new Promise((done) => setImmediate(done))
  }
  assert.ok(clock.now() - begun >= 4000, `${clock.now() - begun} ms`)
})

describe('a wrong target is refused with the field and what fixes it (B8)', () => {
  const file = (name: string, content: string): string => {
    const path = join(room, name)
    writeFileSync(path, content)
    return path
  }
  const s3 = { key_file: file('s3.key', 'AKID\nhush\n') }
  const dav = { password_file: file('password', 'hush\n') }
  const hostKey = 'AAAAC3NzaC1lZDI1NTE5AAAAIBz0BGqKXwAzsqZLgDUgxxXFbqeuOYVC6bPzNB+SXkxb'
  const sftp = { password_file: dav.password_file, host_keys: [`host ssh-ed25519 ${hostKey}`] }

  const CASES: [target: string, options: PlaceOptions, sentence: RegExp][] = [
    ['backups', {}, /^"backups" is not a target; .*absolute path/],
    ['ftp://host/path', {}, /is not a target; .*s3:\/\//],
    ['s3://b', { s3 }, /is not s3:\/\/BUCKET/],
    ['s3://bucket:80/a', { s3 }, /s3:\/\/BUCKET/],
    ['s3://key:hush@bucket', { s3 }, /^"s3:\/\/key@bucket" has a password/],
    ['s3://bucket/a%20b', { s3 }, /prefix that is not of letters/],
    ['s3://bucket?colour=red', { s3 }, /has "colour"; it takes endpoint, region, style, key_file/],
    ['s3://bucket', {}, /"backup\.s3\.key_file" is missing/],
    ['s3://bucket', { s3: { key_file: 'key' } }, /absolute path/],
    ['s3://bucket', { s3: { key_file: join(room, 'none') } }, /cannot be read \(ENOENT\)/],
    ['s3://bucket', { s3: { key_file: dav.password_file } }, /two lines/],
    ['s3://bucket', { s3: { ...s3, endpoint: 'http://storage.example' } }, /"backup\.s3\.endpoint".*https/],
    ['s3://bucket', { s3: { ...s3, endpoint: 'storage' } }, /"backup\.s3\.endpoint"/],
    ['s3://bucket?style=vhost', { s3 }, /"backup\.s3\.style"/],
    [
      's3://bucket?endpoint=https://[2001:db8::1]:9000&style=host',
      { s3 },
      /"backup\.s3\.style" is "host".*give "path"/,
    ],
    ['s3://bucket?endpoint=https://192.0.2.1&style=host', { s3 }, /an address such as 192\.0\.2\.1 has no names below/],
    ['s3://my.bucket?style=host', { s3 }, /"my\.bucket" is not a single label/],
    ['s3://Bucket?style=host', { s3 }, /"Bucket" is not a single label/],
    ['s3://my_bucket?style=host', { s3 }, /"my_bucket" is not a single label/],
    ['s3://bucket', { s3: { ...s3, region: 'a/b' } }, /"backup\.s3\.region"/],
    ['http+dav://user@host/', { dav }, /without TLS/],
    ['https+dav://host/', { dav }, /USER@HOST/],
    ['https+dav://user@host/', {}, /"backup\.dav\.password_file" is missing/],
    ['https+dav://user:hush@host/', { dav }, /has a password in it/],
    ['sftp://host/', { sftp }, /USER@HOST/],
    ['sftp://user@host/', { sftp: { host_keys: sftp.host_keys } }, /"backup\.sftp\.key_file" is missing/],
    ['sftp://user@host/', { sftp: { ...sftp, key_file: dav.password_file } }, /not a private key/],
    [
      'sftp://user@host/',
      { sftp: { password_file: dav.password_file } },
      /"backup\.sftp\.host_keys" has no key of host/,
    ],
    ['sftp://user@other/', { sftp }, /has no key of other/],
    ['sftp://user@host:2222/', { sftp }, /has no key of \[host\]:2222/],
    ['sftp://user@host/', { sftp: { ...sftp, host_keys: ['host ssh-ed25519 AAAA'] } }, /as "ssh-keyscan host" prints/],
    [
      'sftp://user@host/',
      { sftp: { ...sftp, host_keys: [`host ssh-rsa ${hostKey}`] } },
      /as "ssh-keyscan host" prints/,
    ],
    ['exec:', {}, /exec:COMMAND/],
  ]
  for (const [target, options, sentence] of CASES)
    test(`${target} ${String(sentence)}`, () => {
      assert.throws(
        () => openPlace(target, options, deps),
        (thrown) => {
          assert.ok(thrown instanceof OperatorError, String(thrown))
          assert.match(thrown.message, sentence)
          assert.doesNotMatch(thrown.message, /hush/)
          return true
        },
      )
    })

  test('right ones are taken, and shown as they are configured', () => {
    for (const [target, options] of [
      ['s3://bucket/some/prefix', { s3 }],
      ['s3://bucket/?endpoint=https://storage.example&region=garage&style=host', { s3 }],
      ['s3://bucket?endpoint=http://127.0.0.1:9000', { s3 }],
      ['sftp://user@host/', { sftp }],
      ['sftp://user@host/~/backups', { sftp }],
      ['https+dav://user@host/backups', { dav }],
      ['http+dav://user@[::1]:80/', { dav }],
    ] as const)
      assert.equal(openPlace(target, options, deps).title, target)
  })
})
