// The part of ssh2 that is used; the package has no types of its own.
declare module 'ssh2' {
  export type Called<Value> = (error: Error | undefined, value: Value) => void

  export interface SftpFacts {
    size: number
    /** In seconds. */
    mtime: number
    isFile(): boolean
  }

  export interface SftpSession {
    open(path: string, flags: string, attributes: { mode: number }, done: Called<Buffer>): void
    close(handle: Buffer, done: Called<void>): void
    read(handle: Buffer, into: Buffer, at: number, length: number, position: number, done: Called<number>): void
    write(handle: Buffer, from: Buffer, at: number, length: number, position: number, done: Called<void>): void
    stat(path: string, done: Called<SftpFacts>): void
    opendir(path: string, done: Called<Buffer>): void
    /** The next names of an open directory; fails with code 1 behind the last. */
    readdir(handle: Buffer, done: Called<{ filename: string; attrs: SftpFacts }[]>): void
    unlink(path: string, done: Called<void>): void
    rename(from: string, to: string, done: Called<void>): void
    ext_openssh_rename(from: string, to: string, done: Called<void>): void
    ext_openssh_fsync(handle: Buffer, done: Called<void>): void
    ext_openssh_statvfs(path: string, done: Called<{ f_bavail: number; f_frsize: number }>): void
  }

  interface SshSettings {
    host: string
    port: number
    username: string
    password?: string
    privateKey?: Buffer
    readyTimeout: number
    keepaliveInterval: number
    hostVerifier: (key: Buffer) => boolean
    algorithms: { serverHostKey: readonly string[] }
  }

  export class SshClient {
    connect(settings: SshSettings): this
    sftp(done: Called<SftpSession>): this
    end(): this
    setNoDelay(on: boolean): this
    destroy(): this
    on(event: 'ready' | 'close', listener: () => void): this
    on(event: 'error', listener: (error: Error & { level?: string }) => void): this
  }

  const ssh2: {
    Client: typeof SshClient
    utils: { parseKey(key: Buffer | string): Error | object }
  }
  export default ssh2
}
