// Places for backups on real servers: OpenStack Swift for S3, rclone for WebDAV and SFTP, OpenSSH for SFTP (B9).
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type LookupFunction, type Socket } from 'node:net'
import { userInfo } from 'node:os'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { AwsClient } from 'aws4fetch'
import { bundle } from '../../packaging/bundle.ts'
import { openPlace, type BackupPlace, type PlaceOptions } from '../../src/archive/places/place.ts'
import { HOUR, systemClock, type Clock } from '../../src/base/clock.ts'
import { chain, issue } from '../kit/authority.ts'
import { failing, faultOf, namesIn, pieces, placeSuite, sha256 } from '../archive/place-suite.ts'
import {
  missingKeepers,
  newSshKey,
  S3_KEY,
  startDav,
  startRcloneSftp,
  startSshd,
  startSwift,
  type Keeper,
  type Swift,
} from './rig/keepers.ts'
import { smallDisk } from './rig/machine.ts'
import { passBy, withPrograms } from './rig/need.ts'
import { Sandbox } from './rig/sandbox.ts'

const MB = 1024 * 1024
const deps = { clock: systemClock }

/**
 * What is seen in a folder of rclone, which may end the file of a request that was cut off after its part was removed,
 * and so make it again.
 */
const finished = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => !name.endsWith('.part'))
    .sort()

interface Between {
  port: number
  close: () => void
}

/** A server between; `on` is told of octets to the target by connection, and says what becomes of them. */
async function between(
  target: number,
  on: (passed: number, connection: number) => 'pass' | 'cut' | 'keep',
): Promise<Between> {
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((socket) => {
    const onward = connect(target, '127.0.0.1')
    for (const each of [socket, onward]) {
      sockets.add(each)
      each.on('error', () => {})
    }
    const own = connections++
    let passed = 0
    socket.on('data', (piece: Buffer) => {
      passed += piece.length
      const what = on(passed, own)
      if (what === 'pass') return void onward.write(piece)
      if (what === 'keep') return void socket.pause()
      socket.destroy()
      return void onward.destroy()
    })
    onward.on('data', (piece: Buffer) => socket.write(piece))
    socket.on('close', () => onward.destroy())
    onward.on('close', () => socket.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const close = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { port: (server.address() as AddressInfo).port, close }
}

/** Ends every connection after so many octets. */
const cutting = (target: number, octets: number): Promise<Between> =>
  between(target, (passed) => (passed <= octets ? 'pass' : 'cut'))

/** A server that takes connections and says nothing. */
async function silent(): Promise<Between> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).resume()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const close = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { port: (server.address() as AddressInfo).port, close }
}

/** A clock whose pauses before another try are none. */
const hasty = (away = 0): Clock => ({
  now: () => Date.now() + away,
  elapsed: () => performance.now(),
  wake: (_, run) => {
    setImmediate(run)
    return () => {}
  },
})

withPrograms('S3 by OpenStack Swift', missingKeepers(), () => {
  const box = new Sandbox('swift')
  let swift: Swift
  let keyFile: string
  const client = new AwsClient({
    accessKeyId: S3_KEY.id,
    secretAccessKey: S3_KEY.secret,
    service: 's3',
    region: 'us-east-1',
    retries: 0,
  })
  const bucket = async (name: string): Promise<string> => {
    const made = await client.fetch(`${swift.endpoint}/${name}`, { method: 'PUT' })
    assert.equal(made.status, 200, await made.text())
    return `s3://${name}/some/prefix`
  }
  const options = (): PlaceOptions => ({ s3: { endpoint: swift.endpoint, key_file: keyFile } })
  /** Names of objects and of uploads that are not completed. */
  const everything = async (name: string): Promise<string[]> => {
    const found: string[] = []
    for (const query of ['?list-type=2', '?uploads']) {
      const text = await (await client.fetch(`${swift.endpoint}/${name}${query}`)).text()
      for (const [, key = ''] of text.matchAll(/<Key>([^<]*)<\/Key>/g)) found.push(`${query} ${key}`)
    }
    return found.sort()
  }
  let place: BackupPlace
  before(async () => {
    swift = await startSwift(box)
    keyFile = box.write('s3.key', `${S3_KEY.id}\n${S3_KEY.secret}\n`)
    place = openPlace(await bucket('kept'), options(), deps)
  })
  after(() => box.close())

  placeSuite({ place: () => place, everything: () => everything('kept') })

  test('a wrong key, a wrong clock, a bucket that is not there and a full one are told apart (B9)', async () => {
    const target = await bucket('refusing')
    const wrong = { s3: { endpoint: swift.endpoint, key_file: box.write('wrong.key', `${S3_KEY.id}\nwrong\n`) } }
    const small = pieces(Buffer.from('mail'))
    await assert.rejects(
      openPlace(target, wrong, deps).put('a.age', small),
      faultOf('key', /403: SignatureDoesNotMatch/),
    )
    await assert.rejects(openPlace(target, wrong, deps).head('a.age'), faultOf('key', /403/))
    for (const away of [-HOUR, HOUR]) {
      const late = openPlace(target, options(), { clock: hasty(away) })
      await assert.rejects(late.put('a.age', small), faultOf('clock', /RequestTimeTooSkewed.*clock/))
      // An answer without a body says it by its date.
      await assert.rejects(late.head('a.age'), faultOf('clock', /differ by (?:59|60|61) minutes/))
    }
    const none = openPlace('s3://nothing-here', options(), deps)
    await assert.rejects(none.put('a.age', small), faultOf('bucket', /NoSuchBucket/))
    await assert.rejects(namesIn(none), faultOf('bucket', /NoSuchBucket/))
    // The container of parts is made by the first upload.
    await openPlace(target, options(), deps).put('first.age', pieces(Buffer.alloc(9 * MB)))
    await openPlace(target, options(), deps).remove('first.age')
    await swift.quota('refusing', 5 * MB)
    await swift.quota('refusing+segments', 5 * MB)
    const right = openPlace(target, options(), deps)
    for (const size of [6 * MB, 20 * MB])
      await assert.rejects(
        right.put('a.age', pieces(Buffer.alloc(size))),
        faultOf('space', /EntityTooLarge.*make room/),
      )
    assert.deepEqual(await everything('refusing'), [])
  })

  describe('with the bucket in the host name (B8)', () => {
    const authority = issue({ subject: 'Authority of hosts', ca: true })
    const own = issue({ subject: 's3.test', names: ['*.s3.test'], by: authority })
    const sockets = new Set<Socket>()
    let tls: TlsServer
    let hosted: BackupPlace
    /** Host names below s3.test are this machine, as DNS of a service has it for each bucket. */
    const asked: string[] = []
    const lookup: LookupFunction = (host, options, done) => {
      asked.push(host)
      if (!host.endsWith('.s3.test')) return done(Object.assign(new Error(`no ${host}`), { code: 'ENOTFOUND' }), '')
      if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }])
      else done(null, '127.0.0.1', 4)
    }
    const hostDeps = { ...deps, authorities: () => authority.cert, lookup }
    const hostOptions = (file = keyFile): PlaceOptions => ({
      s3: { endpoint: `https://s3.test:${(tls.address() as AddressInfo).port}`, style: 'host', key_file: file },
    })
    before(async () => {
      const port = Number(new URL(swift.endpoint).port)
      tls = createTlsServer(chain(own, authority), (socket) => {
        const onward = connect(port, '127.0.0.1')
        for (const each of [socket, onward]) {
          sockets.add(each)
          each.on('error', () => {})
          each.on('close', () => [socket, onward].forEach((one) => one.destroy()))
        }
        socket.pipe(onward).pipe(socket)
      })
      await new Promise<void>((done) => tls.listen(0, '127.0.0.1', done))
      hosted = openPlace(await bucket('hosted'), hostOptions(), hostDeps)
    })
    after(async () => {
      await hosted.close()
      tls.close()
      for (const socket of sockets) socket.destroy()
    })

    placeSuite({ place: () => hosted, everything: () => everything('hosted') })

    test('the object lies in the bucket that the host names; a wrong key, clock and bucket are refused (B8)', async () => {
      const small = pieces(Buffer.from('mail'))
      await hosted.put('postrider-a.age', small)
      assert.deepEqual(await everything('hosted'), ['?list-type=2 some/prefix/postrider-a.age'])
      assert.deepEqual([...new Set(asked)], ['hosted.s3.test'])
      await hosted.remove('postrider-a.age')
      const wrong = box.write('hosted.key', `${S3_KEY.id}\nwrong\n`)
      await assert.rejects(
        openPlace('s3://hosted', hostOptions(wrong), hostDeps).put('a.age', small),
        faultOf('key', /403: SignatureDoesNotMatch/),
      )
      const none = openPlace('s3://nothing-here', hostOptions(), hostDeps)
      await assert.rejects(none.put('a.age', small), faultOf('bucket', /NoSuchBucket/))
      const late = openPlace('s3://hosted', hostOptions(), { ...hostDeps, clock: hasty(HOUR) })
      await assert.rejects(late.put('a.age', small), faultOf('clock', /RequestTimeTooSkewed/))
    })
  })

  test('an upload that the network cuts off leaves nothing to be seen (B9)', async () => {
    const target = await bucket('cut')
    const cutter = await cutting(Number(new URL(swift.endpoint).port), 4 * MB)
    try {
      const through = { s3: { endpoint: `http://127.0.0.1:${cutter.port}`, key_file: keyFile } }
      const cut = openPlace(target, through, { clock: hasty() })
      for (const size of [5 * MB, 20 * MB])
        await assert.rejects(cut.put('a.age', pieces(Buffer.alloc(size))), faultOf('unreachable'))
    } finally {
      cutter.close()
    }
    assert.deepEqual(await everything('cut'), [])
  })

  test('a request that fails on the way is tried again (B8)', async () => {
    const target = await bucket('again')
    const port = Number(new URL(swift.endpoint).port)
    // Each second connection, of which each request has its own, and one is in the middle of a part.
    const bad = await between(port, (passed, connection) => (connection % 2 === 0 && passed > 300 ? 'cut' : 'pass'))
    try {
      const through = { s3: { endpoint: `http://127.0.0.1:${bad.port}`, key_file: keyFile } }
      const octets = randomBytes(17 * MB)
      const trying = openPlace(target, through, { clock: hasty() })
      assert.equal((await trying.put('a.age', pieces(octets))).sha256, sha256(octets))
      assert.equal(sha256(await buffer(trying.get('a.age'))), sha256(octets))
    } finally {
      bad.close()
    }
    // The first try to begin an upload may have succeeded unheard.
    assert.ok((await everything('again')).includes('?list-type=2 some/prefix/a.age'))
  })

  test('at most two parts are in memory, however slow the service is (B8)', async () => {
    const target = await bucket('two')
    const slow = await between(Number(new URL(swift.endpoint).port), (passed) => (passed < 2 * MB ? 'pass' : 'keep'))
    let given = 0
    const counted = async function* (): AsyncIterable<Uint8Array> {
      for (let at = 0; at < 1000; at++) {
        given += 65_536
        yield Buffer.alloc(65_536)
      }
    }
    try {
      const through = { s3: { endpoint: `http://127.0.0.1:${slow.port}`, key_file: keyFile } }
      const place = openPlace(target, through, { clock: hasty(), patience: 500 })
      await assert.rejects(place.put('a.age', counted()), faultOf('slow'))
    } finally {
      slow.close()
    }
    assert.ok(given > 8 * MB && given <= 16 * MB + 2 * 65_536, `${given}`)
    assert.deepEqual(await everything('two'), [])
  })

  test('uploads that a kill left are aborted after a day, younger ones and others are not (B8)', async () => {
    const target = await bucket('stale')
    const begin = async (key: string): Promise<void> => {
      const begun = await client.fetch(`${swift.endpoint}/stale/${key}?uploads`, { method: 'POST' })
      assert.equal(begun.status, 200, await begun.text())
    }
    const others = ['other/postrider-a.age', 'some/prefix/a.age', 'some/prefix/deep/postrider-a.age']
    for (const key of ['some/prefix/postrider-a.age', ...others]) await begin(key)
    const from = (away: number): BackupPlace =>
      openPlace(
        target,
        { s3: { endpoint: swift.patient, key_file: keyFile } },
        { clock: { ...systemClock, now: () => Date.now() + away } },
      )
    await from(23 * HOUR).put('b.age', pieces(Buffer.from('b')))
    assert.equal((await everything('stale')).length, 5)
    await from(25 * HOUR).put('b.age', pieces(Buffer.from('b')))
    assert.deepEqual(await everything('stale'), [
      '?list-type=2 some/prefix/b.age',
      ...others.map((key) => `?uploads ${key}`),
    ])
  })
})

withPrograms('WebDAV by rclone', missingKeepers(), () => {
  const box = new Sandbox('dav')
  const authority = issue({ subject: 'Authority of the test', ca: true })
  const own = issue({ subject: 'localhost', names: ['localhost'], by: authority })
  let keeper: Keeper
  let plain: Keeper
  let place: BackupPlace
  let password: string
  const trusting = { clock: systemClock, authorities: () => authority.cert }
  const targetOf = ({ port, user }: Keeper, path = '/'): string => `https+dav://${user}@localhost:${port}${path}`
  before(async () => {
    keeper = await startDav(box, 'tls', chain(own, authority))
    plain = await startDav(box, 'plain')
    password = box.write('password', `${keeper.password}\n`)
    place = openPlace(targetOf(keeper), { dav: { password_file: password } }, trusting)
  })
  after(() => box.close())

  placeSuite({ place: () => place, everything: () => finished(keeper.folder) })

  test('a wrong password, a folder that is not there and a strange certificate are told apart (B9)', async () => {
    const wrong = { dav: { password_file: box.write('wrong', 'wrong\n') } }
    const right = { dav: { password_file: password } }
    const small = pieces(Buffer.from('mail'))
    await assert.rejects(openPlace(targetOf(keeper), wrong, trusting).put('a.age', small), faultOf('key', /401/))
    await assert.rejects(namesIn(openPlace(targetOf(keeper, '/none/'), right, trusting)), faultOf('bucket'))
    await assert.rejects(openPlace(targetOf(keeper, '/none/'), right, trusting).put('a.age', small), faultOf('bucket'))
    const strange = openPlace(targetOf(keeper), right, { clock: hasty() })
    await assert.rejects(strange.head('a.age'), faultOf('certificate', /unknown authority|self-signed/))
    const byAddress = `https+dav://keeper@127.0.0.1:${keeper.port}/`
    await assert.rejects(openPlace(byAddress, right, trusting).head('a.age'), faultOf('certificate', /another host/))
  })

  test('an upload that the network cuts off leaves nothing to be seen (B9)', async () => {
    const cutter = await cutting(plain.port, 4 * MB)
    try {
      const target = `http+dav://keeper@127.0.0.1:${cutter.port}/`
      const cut = openPlace(target, { dav: { password_file: password } }, { clock: hasty() })
      await assert.rejects(cut.put('a.age', pieces(Buffer.alloc(20 * MB))), faultOf('unreachable'))
      assert.deepEqual(await namesIn(cut), [])
      await cut.close()
    } finally {
      cutter.close()
    }
    assert.deepEqual(finished(plain.folder), [])
  })
})

withPrograms('SFTP by OpenSSH', missingKeepers(), () => {
  const box = new Sandbox('sshd')
  const folder = box.path('kept')
  let place: BackupPlace
  let port: number
  let hostKey: { file: string; line: string }
  let key: { file: string; line: string }
  const { username } = userInfo()
  const optionsOf = (line: string): PlaceOptions => ({
    sftp: { key_file: key.file, host_keys: [`[127.0.0.1]:${port} ${line}`] },
  })
  const target = (path = folder): string => `sftp://${username}@127.0.0.1:${port}${path}`
  const small = (): AsyncIterable<Uint8Array> => pieces(Buffer.from('mail'))
  before(async () => {
    mkdirSync(folder)
    key = newSshKey(box, 'key')
    hostKey = newSshKey(box, 'host')
    ;({ port } = await startSshd(box, [hostKey.file, newSshKey(box, 'ecdsa', 'ecdsa').file], key.line))
    place = openPlace(target(), optionsOf(hostKey.line), deps)
  })
  after(async () => {
    await place.close()
    await box.close()
  })

  placeSuite({ place: () => place, everything: () => readdirSync(folder).sort() })

  test('works in the bundle of the executable, without the addons of ssh2 (B8)', async () => {
    const file = box.path('places.mjs')
    await bundle('src/archive/places/place.ts', file)
    const bundled = (await import(file)) as typeof import('../../src/archive/places/place.ts')
    const keeping = bundled.openPlace(target(), optionsOf(hostKey.line), deps)
    await keeping.put('bundled.age', pieces(Buffer.alloc(3 * MB, 'mail')))
    await keeping.close()
    assert.equal((await buffer(place.get('bundled.age'))).length, 3 * MB)
    await place.remove('bundled.age')
  })

  test('a full disk is told as such (B9)', async (t) => {
    const disk = smallDisk(4)
    if (!disk) return passBy(t, 'this user cannot mount a small disk')
    const far = openPlace(target(disk.folder), optionsOf(hostKey.line), deps)
    const near = openPlace(disk.folder, {}, deps)
    try {
      for (const each of [far, near]) {
        await assert.rejects(each.put('a.age', pieces(Buffer.alloc(9 * MB))), faultOf('space', /full.*make room/))
        assert.deepEqual(readdirSync(disk.folder), [])
      }
    } finally {
      await far.close()
      disk.close()
    }
  })

  test('a changed host key, a wrong key and a folder that is not there are told apart (B9)', async () => {
    const other = newSshKey(box, 'other')
    const changed = openPlace(target(), optionsOf(other.line), deps)
    await assert.rejects(
      changed.put('a.age', small()),
      faultOf('host_key', /another host key.*backup\.sftp\.host_keys/),
    )
    const rsa = openPlace(target(), optionsOf(newSshKey(box, 'rsa', 'rsa').line), deps)
    await assert.rejects(rsa.head('a.age'), faultOf('host_key', /no host key of the kind/))
    const ecdsa = openPlace(target(), optionsOf(box.read('ecdsa.pub').trim()), deps)
    assert.equal(await ecdsa.head('a.age'), undefined)
    await ecdsa.close()
    const stranger = optionsOf(hostKey.line)
    const wrong = openPlace(target(), { sftp: { ...stranger.sftp, key_file: other.file } }, deps)
    await assert.rejects(wrong.head('a.age'), faultOf('key', /does not let this user in/))
    const none = openPlace(target('/none/at/all'), optionsOf(hostKey.line), deps)
    await assert.rejects(none.put('a.age', small()), faultOf('bucket'))
    await assert.rejects(namesIn(none), faultOf('bucket'))
    await none.close()
    assert.deepEqual(await namesIn(place), [])
  })

  test('an upload that the network cuts off is not under its name, and its part goes with the next (B9)', async () => {
    const cutter = await cutting(port, 4 * MB)
    const options: PlaceOptions = {
      sftp: { key_file: key.file, host_keys: [`[127.0.0.1]:${cutter.port} ${hostKey.line}`] },
    }
    const cut = openPlace(`sftp://${username}@127.0.0.1:${cutter.port}${folder}`, options, deps)
    try {
      await assert.rejects(cut.put('cut.age', pieces(Buffer.alloc(20 * MB))), faultOf('unreachable'))
    } finally {
      await cut.close()
      cutter.close()
    }
    assert.deepEqual(await namesIn(place), [])
    await place.put('cut.age', small())
    assert.deepEqual(readdirSync(folder), ['cut.age'])
    await place.remove('cut.age')
  })
})

withPrograms('SFTP by rclone', missingKeepers(), () => {
  const box = new Sandbox('rclone-sftp')
  let keeper: Keeper
  let place: BackupPlace
  before(async () => {
    const hostKey = newSshKey(box, 'host')
    keeper = await startRcloneSftp(box, 'kept', hostKey.file)
    const host_keys = [`[127.0.0.1]:${keeper.port} ${hostKey.line}`]
    const password_file = box.write('password', `${keeper.password}\n`)
    place = openPlace(`sftp://keeper@127.0.0.1:${keeper.port}/`, { sftp: { host_keys, password_file } }, deps)
  })
  after(async () => {
    await place.close()
    await box.close()
  })
  placeSuite({ place: () => place, everything: () => finished(keeper.folder) })
})

withPrograms('a server that says nothing', missingKeepers(), () => {
  const box = new Sandbox('silent')
  after(() => box.close())

  test('is waited for within a bound, whatever the kind of the place (B9)', async () => {
    const mute = await silent()
    const key = newSshKey(box, 'key')
    const password_file = box.write('password', 'secret\n')
    const options: PlaceOptions = {
      s3: { endpoint: `http://127.0.0.1:${mute.port}`, key_file: box.write('s3.key', 'id\nsecret\n') },
      dav: { password_file },
      sftp: { key_file: key.file, host_keys: [`[127.0.0.1]:${mute.port} ${key.line}`] },
    }
    try {
      for (const target of [
        's3://bucket',
        `http+dav://keeper@127.0.0.1:${mute.port}/`,
        `sftp://keeper@127.0.0.1:${mute.port}/`,
      ]) {
        const place = openPlace(target, options, { clock: hasty(), patience: 200 })
        await assert.rejects(place.put('a.age', pieces(Buffer.alloc(20 * MB))), faultOf('slow'))
        await assert.rejects(place.put('a.age', failing(Buffer.alloc(MB))), faultOf('slow'))
        await assert.rejects(place.head('a.age'), faultOf('slow'))
        await assert.rejects(buffer(place.get('a.age')), faultOf('slow'))
        await place.close()
      }
    } finally {
      mute.close()
    }
  })
})
