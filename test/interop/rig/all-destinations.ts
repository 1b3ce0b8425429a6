// A backup destination of each kind, on real servers: a directory, S3 by Swift, and the commands of docs/backup.md: ssh
// to OpenSSH, rclone to its own SFTP server, and restic. A test can change what is stored, as a failing disk does.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { AwsClient } from 'aws4fetch'
import { documentedScript } from '../../archive/destination-suite.ts'
import { newSshKey, RCLONE, S3_KEY, startRcloneSftp, startSshd, startSwift } from './keepers.ts'
import type { Sandbox } from './sandbox.ts'

export interface TestDestination {
  kind: 'directory' | 's3' | 'ssh' | 'rclone'
  /** As in "backup.to". */
  target: string
  /** As Postrider names it. */
  title: string
  /** Replaces the bytes of an object. */
  change: (name: string, to: (bytes: Buffer) => Buffer) => Promise<void>
}

export interface AllDestinations {
  destinations: TestDestination[]
  /** The settings of "[backup]" that they need besides "to". */
  toml: string
}

const RESTIC = '/usr/bin/restic'
/** The programs of the documented commands. */
export const COMMAND_PROGRAMS = [RCLONE, RESTIC, '/usr/bin/ssh']

/** A target for a documented script that stores in a directory of a real server with ssh. */
export async function sshTarget(box: Sandbox): Promise<{ target: string; folder: string }> {
  const folder = box.path('by-ssh')
  mkdirSync(folder)
  const [login, host] = [newSshKey(box, 'login'), newSshKey(box, 'host')]
  const script = box.write('keep-backup', documentedScript('keep-backup'), 0o755)
  const forced = `restrict,command="${script} ${folder} $SSH_ORIGINAL_COMMAND" ${login.line}`
  const { port } = await startSshd(box, [host.file], forced)
  const known = box.write('known_hosts', `[127.0.0.1]:${port} ${host.line}\n`)
  const options = `-i ${login.file} -p ${port} -F none -o BatchMode=yes -o UserKnownHostsFile=${known}`
  return { folder, target: `exec:/usr/bin/ssh ${options} ${userInfo().username}@127.0.0.1 {action} {name}` }
}

/** A target for the documented script of rclone, which stores on an SFTP server. */
export async function rcloneTarget(box: Sandbox): Promise<{ target: string; folder: string }> {
  const { folder, password, port, user } = await startRcloneSftp(box, 'by-rclone', newSshKey(box, 'rclone-host').file)
  const secret = execFileSync(RCLONE, ['obscure', password], { encoding: 'utf8' }).trim()
  const config = box.write(
    'rclone.conf',
    `[cloud]\ntype = sftp\nhost = 127.0.0.1\nport = ${port}\nuser = ${user}\npass = ${secret}\n`,
  )
  const script = box.write('rclone-backup', documentedScript('rclone-backup'), 0o755)
  return { folder, target: `exec:/usr/bin/env RCLONE_CONFIG=${config} ${script} cloud: {action} {name}` }
}

/** A target for the documented script of restic. */
export function resticTarget(box: Sandbox): string {
  const repository = box.path('restic')
  const password = box.write('restic.password', 'secret\n')
  execFileSync(RESTIC, ['--no-cache', '--repo', repository, '--password-file', password, 'init'], { stdio: 'pipe' })
  const script = box.write('restic-backup', documentedScript('restic-backup'), 0o755)
  return `exec:/usr/bin/env RESTIC_PASSWORD_FILE=${password} ${script} ${repository} {action} {name}`
}

export async function startAllDestinations(box: Sandbox): Promise<AllDestinations> {
  const client = new AwsClient({
    accessKeyId: S3_KEY.id,
    secretAccessKey: S3_KEY.secret,
    region: 'us-east-1',
    service: 's3',
  })
  const swift = await startSwift(box)
  const made = await client.fetch(`${swift.endpoint}/backups`, { method: 'PUT' })
  if (made.status !== 200) throw new Error(`Swift makes no bucket: ${await made.text()}`)
  mkdirSync(box.path('disk'))
  const inFolder =
    (folder: string): TestDestination['change'] =>
    async (name, to) =>
      writeFileSync(`${folder}/${name}`, to(readFileSync(`${folder}/${name}`)))
  const object = (name: string): string => `${swift.endpoint}/backups/mx/${name}`
  const [ssh, rclone] = [await sshTarget(box), await rcloneTarget(box)]
  return {
    destinations: [
      { kind: 'directory', target: box.path('disk'), title: box.path('disk'), change: inFolder(box.path('disk')) },
      {
        kind: 's3',
        target: 's3://backups/mx',
        title: 's3://backups/mx',
        async change(name, to) {
          const bytes = Buffer.from(await (await client.fetch(object(name))).arrayBuffer())
          const put = await client.fetch(object(name), { method: 'PUT', body: new Uint8Array(to(bytes)) })
          if (put.status !== 200) throw new Error(`Swift keeps nothing: ${await put.text()}`)
        },
      },
      { kind: 'ssh', target: ssh.target, title: 'exec:/usr/bin/ssh', change: inFolder(ssh.folder) },
      { kind: 'rclone', target: rclone.target, title: 'exec:/usr/bin/env', change: inFolder(rclone.folder) },
    ],
    toml: `s3 = { endpoint = "${swift.endpoint}", key_file = "${box.write('s3.key', `${S3_KEY.id}\n${S3_KEY.secret}\n`)}" }`,
  }
}
