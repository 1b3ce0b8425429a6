// `postrider serve` as a separate process, for tests that kill it.
import { spawn, type ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SERVER_ENVIRONMENT } from './environment.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))

export interface Server {
  process: ChildProcess
  /** The base URL of the API: "http://host:port". */
  url: string
  /** Ports of the SMTP listeners. */
  smtp: number[]
  /** How it ended: the signal, or the exit code. */
  ended: Promise<unknown>
}

/**
 * Writes a configuration for a data directory: loopback, free ports, the test's DNS. `more` is TOML. Returns the file.
 */
export function configFor(dataDir: string, { port }: { port: number }, more = ''): string {
  const file = join(dataDir, 'postrider.toml')
  writeFileSync(
    file,
    `hostname = "mx.postrider.test"
data_dir = ${JSON.stringify(dataDir)}
[http]
listen = "127.0.0.1:0"
[smtp]
listen = ["127.0.0.1:0"]
[dns]
servers = ["127.0.0.1:${port}"]
[network]
allow_private = ["127.0.0.0/8"]
[api]
rate_limit = 0
${more}`,
  )
  return file
}

/**
 * Starts the server and waits for its ready line. Rejects with its output if it exits before that. `limit` is a shell
 * command to start the server with, such as "ulimit -n 60". `heard` gets all output of the server.
 */
export async function startServer(
  configFile: string,
  { heard, limit = ':' }: { limit?: string; heard?: (chunk: string) => void } = {},
): Promise<Server> {
  const argv = ['-c', `${limit}; exec "$0" "$@"`, process.execPath, PROGRAM, '--config', configFile, 'serve']
  const child = spawn('sh', argv, { stdio: ['ignore', 'pipe', 'pipe'], env: SERVER_ENVIRONMENT })
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)))
  let output = ''
  let errors = ''
  const ready = new Promise<{ http: string; smtp: string[] }>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      heard?.(chunk.toString())
      // The output after the ready line is read and dropped, so that the pipe never fills.
      if (output === 'ready') return
      output += chunk.toString()
      const line = output.split('\n').find((text) => text.includes('"event":"server_ready"'))
      if (line === undefined || !output.includes(`${line}\n`)) return
      output = 'ready'
      resolve(JSON.parse(line) as { http: string; smtp: string[] })
    })
  })
  child.stderr.on('data', (chunk: Buffer) => void (errors += chunk.toString()))
  const { http, smtp } = await Promise.race([
    ready,
    ended.then((how) => {
      throw new Error(`the server ended (${String(how)}) before it was ready: ${errors}${output}`)
    }),
  ])
  return { process: child, url: `http://${http}`, smtp: smtp.map((each) => Number(each.split(':').at(-1))), ended }
}
