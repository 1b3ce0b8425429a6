// A folder on an SSH server as a place for backups. The server is known by the host key that the operator pinned, never
// by the one that it shows first. A file is written under a name with a dot, synced where the server can (OpenSSH), and
// renamed over what has the name.
import type { Called, SftpFacts, SftpSession, SshClient } from 'ssh2'
import { MINUTE, SECOND } from '../../base/clock.ts'
import { forLog } from '../../base/clean-text.ts'
import { codeOf, messageOf } from '../../base/errors.ts'
import { within } from '../../net/https.ts'
import { Octets } from '../octets.ts'
import { partName, type Backend, type BackupObject, type PlaceDeps } from './backend.ts'
import { PlaceFault } from './place-fault.ts'

/** What is under way at a time: so many requests of 32 KB, which every server takes. */
const WINDOW = 1024 * 1024
const REQUEST = 32 * 1024

export interface SftpAccess {
  title: string
  host: string
  port: number
  user: string
  /** Where the files lie; ends with a slash. */
  folder: string
  secret: { password: string } | { privateKey: Buffer }
  /** The keys of this host that are pinned; at least one. */
  hostKeys: readonly { kind: string; key: Buffer }[]
}

// Answers of SFTP (draft-ietf-secsh-filexfer-02 §7).
const END_OF_FILE = 1
const NO_SUCH_FILE = 2
const PERMISSION_DENIED = 3
const UNSUPPORTED = 8

const statusOf = (thrown: unknown): unknown =>
  typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined

export class SftpBackend implements Backend {
  readonly title: string
  readonly leavesParts = true
  readonly #access: SftpAccess
  readonly #patience: number
  #connected: Promise<{ client: SshClient; session: SftpSession }> | undefined

  constructor(access: SftpAccess, { patience = MINUTE }: PlaceDeps) {
    this.title = access.title
    this.#access = access
    this.#patience = patience
  }

  async put(name: string, octets: AsyncIterable<Uint8Array>): Promise<void> {
    const part = this.#path(partName(name))
    const handle = await this.#call<Buffer>((session, done) => session.open(part, 'w', { mode: 0o600 }, done), true)
    const close = (): Promise<void> => this.#call<void>((session, done) => session.close(handle, done))
    try {
      await this.#pour(handle, octets)
      await this.#call<void>((session, done) => session.ext_openssh_fsync(handle, done)).catch(unsupported)
      await close()
      await this.#rename(part, this.#path(name))
    } catch (thrown) {
      // What made it fail is what is said, also where these fail too.
      await close().catch(messageOf)
      await this.remove(partName(name)).catch(messageOf)
      throw thrown
    }
  }

  async *entries(): AsyncIterable<BackupObject> {
    const { folder } = this.#access
    const handle = await this.#call<Buffer>((session, done) => session.opendir(folder, done), true)
    try {
      for (;;) {
        const names = await this.#call<{ filename: string; attrs: SftpFacts }[]>((session, done) =>
          session.readdir(handle, done),
        ).catch((thrown: unknown) => {
          if (statusOf(thrown) === END_OF_FILE) return []
          throw thrown
        })
        if (names.length === 0) return
        for (const { attrs, filename } of names) if (attrs.isFile()) yield objectOf(filename, attrs)
      }
    } finally {
      await this.#call<void>((session, done) => session.close(handle, done))
    }
  }

  async head(name: string): Promise<BackupObject | undefined> {
    try {
      const facts = await this.#call<SftpFacts>((session, done) => session.stat(this.#path(name), done))
      return facts.isFile() ? objectOf(name, facts) : undefined
    } catch (thrown) {
      if (statusOf(thrown) === NO_SUCH_FILE) return undefined
      throw thrown
    }
  }

  async *get(name: string, from: number): AsyncIterable<Uint8Array> {
    const found = await this.head(name)
    if (!found) throw new PlaceFault('missing', this.title, `there is no ${name}`)
    const handle = await this.#call<Buffer>((session, done) =>
      session.open(this.#path(name), 'r', { mode: 0o600 }, done),
    )
    try {
      for (let at = from; at < found.size; at += WINDOW) {
        const window = Buffer.alloc(Math.min(WINDOW, found.size - at))
        await this.#timed((session) =>
          Promise.all(
            requestsOf(window.length).map(([start, length]) =>
              readWhole(session, handle, window.subarray(start, start + length), at + start),
            ),
          ),
        )
        yield window
      }
    } finally {
      await this.#call<void>((session, done) => session.close(handle, done)).catch(messageOf)
    }
  }

  async remove(name: string): Promise<void> {
    await this.#call<void>((session, done) => session.unlink(this.#path(name), done)).catch((thrown: unknown) => {
      if (statusOf(thrown) !== NO_SUCH_FILE) throw thrown
    })
  }

  async close(): Promise<void> {
    const connected = await this.#connected?.catch(() => undefined)
    connected?.client.end()
    this.#connected = undefined
  }

  #path(name: string): string {
    return `${this.#access.folder}${name}`
  }

  async #pour(handle: Buffer, octets: AsyncIterable<Uint8Array>): Promise<void> {
    const source = new Octets(octets)
    try {
      for (let at = 0; ;) {
        const window = await source.take(WINDOW)
        if (window.length === 0) return
        await this.#timed((session) =>
          Promise.all(
            requestsOf(window.length).map(([start, length]) =>
              promised<void>((done) => session.write(handle, window, start, length, at + start, done)),
            ),
          ),
        ).catch(async (thrown: unknown) => {
          throw await this.#writeFault(thrown)
        })
        at += window.length
      }
    } finally {
      await source.close()
    }
  }

  /** The protocol has no answer for a full disk but "Failure": so the disk is asked. */
  async #writeFault(thrown: unknown): Promise<unknown> {
    if (!(thrown instanceof PlaceFault && thrown.reason === 'refused')) return thrown
    const { folder } = this.#access
    const disk = await this.#call<{ f_bavail: number; f_frsize: number }>((session, done) =>
      session.ext_openssh_statvfs(folder, done),
    ).catch(() => undefined)
    return disk && disk.f_bavail * disk.f_frsize < WINDOW
      ? new PlaceFault('space', this.title, 'the disk of the server is full')
      : thrown
  }

  async #rename(from: string, to: string): Promise<void> {
    try {
      await this.#call<void>((session, done) => session.ext_openssh_rename(from, to, done))
    } catch (thrown) {
      if (!isUnsupported(thrown)) throw thrown
      // The protocol's own rename does not replace: names of backups are new each time.
      await this.#call<void>((session, done) => session.rename(from, to, done))
    }
  }

  /** One request. `folder`: where there is no such file, the folder itself is not there. */
  #call<Value>(run: (session: SftpSession, done: Called<Value>) => void, folder = false): Promise<Value> {
    return this.#timed((session) => promised<Value>((done) => run(session, done)), folder)
  }

  /** Requests that must be answered within the time. */
  async #timed<Value>(run: (session: SftpSession) => Promise<Value>, folder = false): Promise<Value> {
    const { client, session } = await this.#connect()
    try {
      return await within(this.#patience, (signal) => {
        const late = promised<never>((done) =>
          signal.addEventListener('abort', () => done(signal.reason, undefined as never)),
        )
        return Promise.race([run(session), late])
      })
    } catch (thrown) {
      throw this.#requestFault(thrown, client, folder)
    }
  }

  #requestFault(thrown: unknown, client: SshClient, folder: boolean): unknown {
    if (thrown instanceof PlaceFault) return thrown
    const status = statusOf(thrown)
    if (status === NO_SUCH_FILE && folder) return new PlaceFault('bucket', this.title, 'there is no such folder')
    if (status === PERMISSION_DENIED) return new PlaceFault('key', this.title, 'the server says "Permission denied"')
    if (status === NO_SUCH_FILE || status === END_OF_FILE || isUnsupported(thrown)) return thrown
    const words = forLog(messageOf(thrown), 200)
    if (typeof status === 'number') return new PlaceFault('refused', this.title, `the server says "${words}"`)
    // Not an answer: the connection is of no use any more.
    client.destroy()
    this.#connected = undefined
    const late = words.startsWith('no whole answer within')
    return new PlaceFault(late ? 'slow' : 'unreachable', this.title, words, true)
  }

  #connect(): Promise<{ client: SshClient; session: SftpSession }> {
    if (this.#connected) return this.#connected
    const connecting = (this.#connected = this.#open())
    // A later one may have taken its place.
    const forget = (): void => {
      if (this.#connected === connecting) this.#connected = undefined
    }
    connecting.then(({ client }) => client.on('close', forget), forget)
    return connecting
  }

  async #open(): Promise<{ client: SshClient; session: SftpSession }> {
    // Loaded where it is needed: no other command has to wait for it.
    const { default: ssh2 } = await import('ssh2')
    const { host, hostKeys, port, secret, user: username } = this.#access
    if ('privateKey' in secret && ssh2.utils.parseKey(secret.privateKey) instanceof Error)
      throw new PlaceFault('key', this.title, 'the private key opens with a passphrase alone, or is damaged')
    const client = new ssh2.Client()
    let shown: 'none' | 'pinned' | 'other' = 'none'
    return await new Promise((resolve, reject) => {
      client.on('error', (error) => {
        reject(this.#connectFault(error, shown))
        client.destroy()
      })
      client.on('close', () =>
        reject(new PlaceFault('unreachable', this.title, 'the server closed the connection', true)),
      )
      client.on('ready', () =>
        // Requests are small and wait for each other: held back, each would take 40 ms.
        client.setNoDelay(true).sftp((error, session) => {
          if (error) reject(new PlaceFault('key', this.title, 'the server gives this user no SFTP'))
          else resolve({ client, session })
        }),
      )
      client.connect({
        host,
        port,
        username,
        ...secret,
        readyTimeout: this.#patience,
        keepaliveInterval: 15 * SECOND,
        hostVerifier: (key) => {
          const known = hostKeys.some((pinned) => pinned.key.equals(key))
          shown = known ? 'pinned' : 'other'
          return known
        },
        // Others are not asked for: a server may have several keys, and shows one.
        algorithms: { serverHostKey: [...new Set(hostKeys.flatMap(({ kind }) => algorithmsOf(kind)))] },
      })
    })
  }

  #connectFault(error: Error & { level?: string }, shown: 'none' | 'pinned' | 'other'): PlaceFault {
    if (shown === 'other')
      return new PlaceFault('host_key', this.title, 'the server has another host key than the one that is pinned')
    if (/no matching host key/i.test(error.message))
      return new PlaceFault('host_key', this.title, 'the server has no host key of the kind that is pinned')
    if (error.level === 'client-authentication')
      return new PlaceFault('key', this.title, 'the server does not let this user in')
    if (error.level === 'client-timeout') return new PlaceFault('slow', this.title, 'no connection in time', true)
    return new PlaceFault('unreachable', this.title, codeOf(error) || forLog(error.message, 200), true)
  }
}

const algorithmsOf = (kind: string): string[] => (kind === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [kind])

const objectOf = (name: string, { mtime, size }: SftpFacts): BackupObject => ({ name, size, at: mtime * SECOND })

/** Begin and length of the requests for so many octets. */
const requestsOf = (octets: number): [number, number][] =>
  Array.from({ length: Math.ceil(octets / REQUEST) }, (_, at) => [
    at * REQUEST,
    Math.min(REQUEST, octets - at * REQUEST),
  ])

const promised = <Value>(run: (done: Called<Value>) => void): Promise<Value> =>
  new Promise((resolve, reject) => run((error, value) => (error ? reject(error) : resolve(value))))

/** Fills a buffer with the octets from one on; a server may give fewer at a time. */
async function readWhole(session: SftpSession, handle: Buffer, into: Buffer, from: number): Promise<void> {
  for (let done = 0; done < into.length;) {
    const count = await promised<number>((called) =>
      session.read(handle, into, done, into.length - done, from + done, called),
    )
    if (count === 0) throw new Error('the file became shorter')
    done += count
  }
}

/** ssh2 itself throws where the server does not offer an extension. */
const isUnsupported = (thrown: unknown): boolean =>
  statusOf(thrown) === UNSUPPORTED || /does not support|not supported/i.test(messageOf(thrown))

function unsupported(thrown: unknown): void {
  if (!isUnsupported(thrown)) throw thrown
}
