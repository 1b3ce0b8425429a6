// A hosting provider with one network volume: an HTTP API that attaches it to one machine at a time. The device is a
// loop device. A machine that loses the volume while it is mounted gets I/O errors, and its later writes are lost.

import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Sandbox } from '../rig/sandbox.ts'
import { until } from '../rig/sandbox.ts'
import type { Machine } from './machine.ts'

const SHUTDOWN = `import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))`

export class Provider {
  readonly device = '/dev/volume'
  readonly volume = '4711'
  readonly token = 'secret-of-the-provider'
  api = ''
  readonly #box: Sandbox
  readonly #web: Server
  readonly #machines = new Map<number, Machine>()
  #image: string
  #copies = 0
  /** Whether some process or mount used the device for 20 s after it was unmounted and detached. */
  busy = false
  #holder: number | null = null
  #loop = ''

  static async start(box: Sandbox, address: string): Promise<Provider> {
    const provider = new Provider(box)
    await new Promise<void>((resolve) => provider.#web.listen(0, address, resolve))
    provider.api = `http://${address}:${(provider.#web.address() as AddressInfo).port}/v1`
    return provider
  }

  private constructor(box: Sandbox) {
    this.#box = box
    this.#image = box.path('volume-0')
    execFileSync('truncate', ['--size', '2G', this.#image])
    this.#web = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString()))
      request.on('end', () => {
        if (request.headers.authorization !== `Bearer ${this.token}`) return void response.writeHead(401).end()
        this.#answer(request.url ?? '', body).then(
          (answer) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer)),
          (error: unknown) => response.writeHead(409).end(String(error)),
        )
      })
    })
  }

  /** A machine by its id at the provider. */
  add(id: number, machine: Machine): void {
    this.#machines.set(id, machine)
  }

  /** The machine is off. */
  remove(id: number): void {
    this.#machines.delete(id)
  }

  #uses(loop: string): boolean {
    return execFileSync('losetup', ['--list', '--noheadings', '--output', 'NAME'], { encoding: 'utf8' })
      .split('\n')
      .some((line) => line.trim() === loop)
  }

  async #answer(path: string, body: string): Promise<unknown> {
    if (path.endsWith('/actions/attach')) await this.#attach((JSON.parse(body) as { server: number }).server)
    else if (path.endsWith('/actions/detach')) await this.#detach()
    return { volume: { id: Number(this.volume), server: this.#holder } }
  }

  async #attach(id: number): Promise<void> {
    if (this.#holder !== null) throw new Error(`the volume is attached to ${this.#holder}`)
    const machine = this.#machines.get(id)
    if (!machine) throw new Error(`there is no server ${id}`)
    this.#loop = execFileSync('losetup', ['--find', '--show', this.#image], { encoding: 'utf8' }).trim()
    const number = /\d+$/.exec(this.#loop)![0]
    await machine.must(`rm -f ${this.device} && mknod -m 600 ${this.device} b 7 ${number}`)
    this.#holder = id
  }

  async #detach(): Promise<void> {
    if (this.#holder === null) throw new Error('the volume is not attached')
    const machine = this.#machines.get(this.#holder)
    const mounted = (await machine?.run(`findmnt --noheadings --output TARGET --source ${this.device}`))?.stdout.trim()
    if (machine && mounted) {
      execFileSync('/usr/bin/python3', ['-c', SHUTDOWN, machine.outside(mounted.split('\n')[0]!)])
    }
    await machine?.must(`rm -f ${this.device}`)
    // The device ends with its last mount.
    execFileSync('losetup', ['--detach', this.#loop])
    const loop = this.#loop
    if (!mounted)
      await until(
        () => !this.#uses(loop),
        20_000,
        () => `${loop} is still in use`,
      ).catch(() => (this.busy = true))
    // A machine that still has the former device cannot change the volume any more.
    const former = this.#image
    this.#image = this.#box.path(`volume-${++this.#copies}`)
    execFileSync('cp', ['--sparse=always', former, this.#image])
    rmSync(former)
    this.#holder = null
  }

  async close(): Promise<void> {
    this.#web.closeAllConnections()
    await new Promise((resolve) => this.#web.close(resolve))
    if (this.#holder !== null) execFileSync('losetup', ['--detach', this.#loop])
  }
}
