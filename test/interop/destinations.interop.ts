// Backup destinations on real servers: OpenStack Swift for S3, and the commands of docs/backup.md with ssh, rclone and
// restic.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type LookupFunction, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { AwsClient } from 'aws4fetch'
import {
  openDestination,
  type Destination,
  type DestinationOptions,
} from '../../src/archive/destinations/destination.ts'
import { HOUR, systemClock, type Clock } from '../../src/base/clock.ts'
import { chain, issue } from '../kit/authority.ts'
import { destinationSuite, failing, faultOf, namesIn, pieces, sha256 } from '../archive/destination-suite.ts'
import { COMMAND_PROGRAMS, rcloneTarget, resticTarget, sshTarget } from './rig/all-destinations.ts'
import { absentOf, missingSwift, S3_KEY, SSHD, startSwift, type Swift } from './rig/keepers.ts'
import { smallDisk } from './rig/machine.ts'
import { passBy, withPrograms } from './rig/need.ts'
import { Sandbox } from './rig/sandbox.ts'

const MB = 1024 * 1024
const deps = { clock: systemClock }

interface Between {
  port: number
  close: () => void
}

/** A proxy. `on` gets the number of bytes sent to the target on a connection, and decides whether to forward them. */
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

/** Closes every connection after this many bytes. */
const cutting = (target: number, bytes: number): Promise<Between> =>
  between(target, (passed) => (passed <= bytes ? 'pass' : 'cut'))

/** A server that accepts connections and never responds. */
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

/** A clock without delays between retries. */
const hasty = (away = 0): Clock => ({
  now: () => Date.now() + away,
  elapsed: () => performance.now(),
  wake: (_, run) => {
    setImmediate(run)
    return () => {}
  },
})

withPrograms('S3 by OpenStack Swift', missingSwift(), () => {
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
  const options = (): DestinationOptions => ({ s3: { endpoint: swift.endpoint, key_file: keyFile } })
  /** Names of objects and of uploads that are not completed. */
  const everything = async (name: string): Promise<string[]> => {
    const found: string[] = []
    for (const query of ['?list-type=2', '?uploads']) {
      const text = await (await client.fetch(`${swift.endpoint}/${name}${query}`)).text()
      for (const [, key = ''] of text.matchAll(/<Key>([^<]*)<\/Key>/g)) found.push(`${query} ${key}`)
    }
    return found.sort()
  }
  let destination: Destination
  before(async () => {
    swift = await startSwift(box)
    keyFile = box.write('s3.key', `${S3_KEY.id}\n${S3_KEY.secret}\n`)
    destination = openDestination(await bucket('kept'), options(), deps)
  })
  after(() => box.close())

  destinationSuite({ destination: () => destination, everything: () => everything('kept') })

  test('a wrong key, a wrong clock, a missing bucket and a full bucket have different errors', async () => {
    const target = await bucket('refusing')
    const wrong = { s3: { endpoint: swift.endpoint, key_file: box.write('wrong.key', `${S3_KEY.id}\nwrong\n`) } }
    const small = pieces(Buffer.from('mail'))
    await assert.rejects(
      openDestination(target, wrong, deps).put('a.age', small),
      faultOf('key', /403: SignatureDoesNotMatch/),
    )
    await assert.rejects(openDestination(target, wrong, deps).sizeOf('a.age'), faultOf('key', /403/))
    for (const away of [-HOUR, HOUR]) {
      const late = openDestination(target, options(), { clock: hasty(away) })
      await assert.rejects(late.put('a.age', small), faultOf('clock', /RequestTimeTooSkewed.*clock/))
      // An answer without a body says it by its date.
      await assert.rejects(
        late.sizeOf('a.age'),
        faultOf('clock', /differs from this machine's by (?:59|60|61) minutes/),
      )
    }
    const none = openDestination('s3://nothing-here', options(), deps)
    await assert.rejects(none.put('a.age', small), faultOf('bucket', /NoSuchBucket/))
    await assert.rejects(namesIn(none), faultOf('bucket', /NoSuchBucket/))
    // The container of parts is made by the first upload.
    await openDestination(target, options(), deps).put('first.age', pieces(Buffer.alloc(9 * MB)))
    await openDestination(target, options(), deps).remove('first.age')
    await swift.quota('refusing', 5 * MB)
    await swift.quota('refusing+segments', 5 * MB)
    const right = openDestination(target, options(), deps)
    for (const size of [6 * MB, 20 * MB])
      await assert.rejects(
        right.put('a.age', pieces(Buffer.alloc(size))),
        faultOf('space', /EntityTooLarge.*free some space/),
      )
    assert.deepEqual(await everything('refusing'), [])
  })

  describe('with the bucket in the host name', () => {
    const authority = issue({ subject: 'Authority of hosts', ca: true })
    const own = issue({ subject: 's3.test', names: ['*.s3.test'], by: authority })
    const sockets = new Set<Socket>()
    let tls: TlsServer
    let hosted: Destination
    /** Host names below s3.test are this machine, as DNS of a service has it for each bucket. */
    const asked: string[] = []
    const lookup: LookupFunction = (host, options, done) => {
      asked.push(host)
      if (!host.endsWith('.s3.test')) return done(Object.assign(new Error(`no ${host}`), { code: 'ENOTFOUND' }), '')
      if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }])
      else done(null, '127.0.0.1', 4)
    }
    const hostDeps = { ...deps, authorities: () => authority.cert, lookup }
    const hostOptions = (file = keyFile): DestinationOptions => ({
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
      hosted = openDestination(await bucket('hosted'), hostOptions(), hostDeps)
    })
    after(async () => {
      await hosted.close()
      tls.close()
      for (const socket of sockets) socket.destroy()
    })

    destinationSuite({ destination: () => hosted, everything: () => everything('hosted') })

    test('stores the object in the bucket of the host name, and rejects a wrong key, clock and bucket', async () => {
      const small = pieces(Buffer.from('mail'))
      await hosted.put('postrider-a.age', small)
      assert.deepEqual(await everything('hosted'), ['?list-type=2 some/prefix/postrider-a.age'])
      assert.deepEqual([...new Set(asked)], ['hosted.s3.test'])
      await hosted.remove('postrider-a.age')
      const wrong = box.write('hosted.key', `${S3_KEY.id}\nwrong\n`)
      await assert.rejects(
        openDestination('s3://hosted', hostOptions(wrong), hostDeps).put('a.age', small),
        faultOf('key', /403: SignatureDoesNotMatch/),
      )
      const none = openDestination('s3://nothing-here', hostOptions(), hostDeps)
      await assert.rejects(none.put('a.age', small), faultOf('bucket', /NoSuchBucket/))
      const late = openDestination('s3://hosted', hostOptions(), { ...hostDeps, clock: hasty(HOUR) })
      await assert.rejects(late.put('a.age', small), faultOf('clock', /RequestTimeTooSkewed/))
    })
  })

  test('an interrupted upload leaves no visible object', async () => {
    const target = await bucket('cut')
    const cutter = await cutting(Number(new URL(swift.endpoint).port), 4 * MB)
    try {
      const through = { s3: { endpoint: `http://127.0.0.1:${cutter.port}`, key_file: keyFile } }
      const cut = openDestination(target, through, { clock: hasty() })
      for (const size of [5 * MB, 20 * MB])
        await assert.rejects(cut.put('a.age', pieces(Buffer.alloc(size))), faultOf('unreachable'))
    } finally {
      cutter.close()
    }
    assert.deepEqual(await everything('cut'), [])
  })

  test('retries a request after a network failure', async () => {
    const target = await bucket('again')
    const port = Number(new URL(swift.endpoint).port)
    // Each second connection, of which each request has its own, and one is in the middle of a part.
    const bad = await between(port, (passed, connection) => (connection % 2 === 0 && passed > 300 ? 'cut' : 'pass'))
    try {
      const through = { s3: { endpoint: `http://127.0.0.1:${bad.port}`, key_file: keyFile } }
      const bytes = randomBytes(17 * MB)
      const trying = openDestination(target, through, { clock: hasty() })
      assert.equal((await trying.put('a.age', pieces(bytes))).sha256, sha256(bytes))
      assert.equal(sha256(await buffer(trying.get('a.age'))), sha256(bytes))
    } finally {
      bad.close()
    }
    // The first try to begin an upload may have succeeded unheard.
    assert.ok((await everything('again')).includes('?list-type=2 some/prefix/a.age'))
  })

  test('keeps at most two parts in memory, even if the service is slow', async () => {
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
      const slowly = openDestination(target, through, { clock: hasty(), patience: 500 })
      await assert.rejects(slowly.put('a.age', counted()), faultOf('slow'))
    } finally {
      slow.close()
    }
    assert.ok(given > 8 * MB && given <= 16 * MB + 2 * 65_536, `${given}`)
    assert.deepEqual(await everything('two'), [])
  })

  test('aborts uploads of a killed process after a day, but not newer or foreign ones', async () => {
    const target = await bucket('stale')
    const begin = async (key: string): Promise<void> => {
      const begun = await client.fetch(`${swift.endpoint}/stale/${key}?uploads`, { method: 'POST' })
      assert.equal(begun.status, 200, await begun.text())
    }
    const others = ['other/postrider-a.age', 'some/prefix/a.age', 'some/prefix/deep/postrider-a.age']
    for (const key of ['some/prefix/postrider-a.age', ...others]) await begin(key)
    const from = (away: number): Destination =>
      openDestination(
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

withPrograms('the ssh command of docs/backup.md', absentOf([SSHD, ...COMMAND_PROGRAMS]), () => {
  const box = new Sandbox('ssh')
  let ssh: { target: string; folder: string }
  before(async () => {
    ssh = await sshTarget(box)
  })
  after(() => box.close())

  destinationSuite({
    destination: () => openDestination(ssh.target, {}, deps),
    everything: () => readdirSync(ssh.folder).sort(),
    missing: 'command',
    // The script on the server sees the end of its input when ssh is killed.
    leavesParts: true,
  })

  test('reports an unknown host key', async () => {
    const unknown = ssh.target.replace('known_hosts', 'none')
    await assert.rejects(
      namesIn(openDestination(unknown, {}, deps)),
      faultOf('command', /status 255: ".*verification failed/),
    )
  })
})

for (const [kind, targetIn, absent] of [
  ['rclone', async (box: Sandbox) => (await rcloneTarget(box)).target, /directory not found|object not found/],
  ['restic', async (box: Sandbox) => resticTarget(box), /status 1/],
] as const)
  withPrograms(`the ${kind} command of docs/backup.md`, absentOf([SSHD, ...COMMAND_PROGRAMS]), () => {
    const box = new Sandbox(kind)
    let destination: Destination
    before(async () => {
      destination = openDestination(await targetIn(box), {}, deps)
    })
    after(() => box.close())

    test('stores, lists, returns and removes objects', async () => {
      const bytes = { 'postrider-a.age': randomBytes(9 * MB), 'postrider-a.age.json': Buffer.from('{}\n') }
      assert.deepEqual(await namesIn(destination), [])
      for (const [name, content] of Object.entries(bytes))
        assert.equal((await destination.put(name, pieces(content))).size, content.length)
      assert.deepEqual(await namesIn(destination), Object.keys(bytes))
      for (const [name, content] of Object.entries(bytes))
        assert.equal(sha256(await buffer(destination.get(name))), sha256(content), name)
      await destination.remove('postrider-a.age')
      assert.deepEqual(await namesIn(destination), ['postrider-a.age.json'])
      await assert.rejects(buffer(destination.get('postrider-a.age')), faultOf('command', absent))
    })
  })

withPrograms('a bucket whose server does not respond', missingSwift(), () => {
  const box = new Sandbox('silent')
  after(() => box.close())

  test('reports a timeout', async () => {
    const mute = await silent()
    const s3 = { endpoint: `http://127.0.0.1:${mute.port}`, key_file: box.write('s3.key', 'id\nsecret\n') }
    const destination = openDestination('s3://bucket', { s3 }, { clock: hasty(), patience: 200 })
    try {
      await assert.rejects(destination.put('a.age', pieces(Buffer.alloc(20 * MB))), faultOf('slow'))
      await assert.rejects(destination.put('a.age', failing(Buffer.alloc(MB))), faultOf('slow'))
      await assert.rejects(destination.sizeOf('a.age'), faultOf('slow'))
      await assert.rejects(buffer(destination.get('a.age')), faultOf('slow'))
    } finally {
      await destination.close()
      mute.close()
    }
  })
})

test('a full disk is reported as such', async (t) => {
  const disk = smallDisk(4)
  if (!disk) return passBy(t, 'this user cannot mount a small disk')
  try {
    const full = openDestination(disk.folder, {}, deps)
    await assert.rejects(full.put('a.age', pieces(Buffer.alloc(9 * MB))), faultOf('space', /full.*free some space/))
    assert.deepEqual(readdirSync(disk.folder), [])
  } finally {
    disk.close()
  }
})
