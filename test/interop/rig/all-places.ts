// A place for backups of each kind, on real servers: a directory, S3 by Swift, SFTP by OpenSSH, WebDAV over TLS by
// rclone, a command. A test can change what lies there, as a failing disk does.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { AwsClient } from 'aws4fetch'
import { keepScript } from '../../archive/place-suite.ts'
import { chain, issue } from '../../kit/authority.ts'
import { newSshKey, S3_KEY, startDav, startSshd, startSwift } from './keepers.ts'
import type { Sandbox } from './sandbox.ts'

export interface KindOfPlace {
  kind: 'directory' | 's3' | 'sftp' | 'dav' | 'exec'
  /** As "backup.to" has it. */
  target: string
  /** As Postrider names it. */
  title: string
  /** Puts other octets in the place of an object's. */
  change: (name: string, to: (octets: Buffer) => Buffer) => Promise<void>
}

export interface AllPlaces {
  places: KindOfPlace[]
  /** What "[backup]" and its server want beside "to". */
  toml: { tls: string; backup: string }
}

export async function startAllPlaces(box: Sandbox): Promise<AllPlaces> {
  const client = new AwsClient({
    accessKeyId: S3_KEY.id,
    secretAccessKey: S3_KEY.secret,
    region: 'us-east-1',
    service: 's3',
  })
  const swift = await startSwift(box)
  const made = await client.fetch(`${swift.endpoint}/backups`, { method: 'PUT' })
  if (made.status !== 200) throw new Error(`Swift makes no bucket: ${await made.text()}`)
  const login = newSshKey(box, 'login')
  const host = newSshKey(box, 'host')
  const { port } = await startSshd(box, [host.file], login.line)
  const authority = issue({ subject: 'Authority of the test', ca: true })
  const dav = await startDav(
    box,
    'by-dav',
    chain(issue({ subject: 'localhost', names: ['localhost'], by: authority }), authority),
  )
  for (const name of ['disk', 'by-ssh', 'by-command']) mkdirSync(box.path(name))
  const inFolder =
    (folder: string): KindOfPlace['change'] =>
    async (name, to) =>
      writeFileSync(box.path(folder, name), to(readFileSync(box.path(folder, name))))
  const place = (kind: KindOfPlace['kind'], target: string, change: KindOfPlace['change']): KindOfPlace => ({
    kind,
    target,
    title: kind === 'exec' ? 'exec:/bin/sh' : target,
    change,
  })
  const object = (name: string): string => `${swift.endpoint}/backups/mx/${name}`
  return {
    places: [
      place('directory', box.path('disk'), inFolder('disk')),
      place('s3', 's3://backups/mx', async (name, to) => {
        const octets = Buffer.from(await (await client.fetch(object(name))).arrayBuffer())
        const put = await client.fetch(object(name), { method: 'PUT', body: new Uint8Array(to(octets)) })
        if (put.status !== 200) throw new Error(`Swift keeps nothing: ${await put.text()}`)
      }),
      place('sftp', `sftp://${userInfo().username}@127.0.0.1:${port}${box.path('by-ssh')}`, inFolder('by-ssh')),
      place('dav', `https+dav://${dav.user}@localhost:${dav.port}/`, inFolder('by-dav')),
      place(
        'exec',
        `exec:/bin/sh ${box.write('keep.sh', keepScript)} ${box.path('by-command')} {action} {name} {from}`,
        inFolder('by-command'),
      ),
    ],
    toml: {
      tls: `ca_file = "${box.write('authority.pem', authority.cert)}"`,
      backup: `s3 = { endpoint = "${swift.endpoint}", key_file = "${box.write('s3.key', `${S3_KEY.id}\n${S3_KEY.secret}\n`)}" }
sftp = { key_file = "${login.file}", host_keys = ["[127.0.0.1]:${port} ${host.line}"] }
dav = { password_file = "${box.write('dav.password', `${dav.password}\n`)}" }`,
    },
  }
}
