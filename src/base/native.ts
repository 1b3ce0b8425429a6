// Functions of the C library, by node:ffi, and of V8: the only file that uses them. The module is experimental, so what
// is missing (another system, another C library) is left out, and nothing may depend on it.
import { createRequire } from 'node:module'
import { endianness } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Parameters of mallopt(3), from malloc.h of glibc. */
const M_MMAP_THRESHOLD = -3
const M_ARENA_MAX = -8
/** An allocation of this many octets or more is a mapping of its own, which ends when it is freed. */
const OWN_MAPPING = 256 * 1024

/** Of socket(2) and send(2), the same on all architectures that Linux has but MIPS, SPARC and Alpha. */
const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
/** Octets of sun_path in unix(7). */
const LONGEST_PATH = 108

interface CLibrary {
  socket(family: number, type: number, protocol: number): number
  sendto(socket: number, text: Buffer, octets: bigint, flags: number, address: Buffer, length: number): bigint
  malloc_trim(pad: bigint): number
  mallopt(parameter: number, value: number): number
  _exit(status: number): never
  syscall(number: bigint, which: bigint, who: bigint, priority: bigint): bigint
}

/** The C library; undefined where there is none that has these functions. */
function cLibrary(): CLibrary | undefined {
  if (process.platform !== 'linux') return undefined
  try {
    const { dlopen } = createRequire(import.meta.url)('node:ffi') as typeof import('node:ffi')
    const { functions } = dlopen('libc.so.6', {
      socket: { arguments: ['i32', 'i32', 'i32'], return: 'i32' },
      sendto: { arguments: ['i32', 'buffer', 'u64', 'i32', 'buffer', 'u32'], return: 'i64' },
      malloc_trim: { arguments: ['u64'], return: 'i32' },
      mallopt: { arguments: ['i32', 'i32'], return: 'i32' },
      _exit: { arguments: ['i32'], return: 'void' },
      syscall: { arguments: ['i64', 'i64', 'i64', 'i64'], return: 'i64' },
    })
    return functions as unknown as CLibrary
  } catch {
    return undefined
  }
}

/**
 * Makes malloc give large blocks back when they are freed. By itself it raises the size of what it maps up to 32 MB
 * with each large block that it frees, and keeps such blocks from then on. `arenas`: the most areas that threads
 * allocate from.
 */
export function giveLargeBlocksBack(arenas?: number): void {
  const library = cLibrary()
  library?.mallopt(M_MMAP_THRESHOLD, OWN_MAPPING)
  if (arenas !== undefined) library?.mallopt(M_ARENA_MAX, arenas)
}

/**
 * A function that gives memory which malloc keeps but does not use back to the system (malloc_trim(3)); it takes about
 * a millisecond. Undefined where the C library has none.
 */
export function trimmer(): (() => void) | undefined {
  const library = cLibrary()
  return library && (() => void library.malloc_trim(0n))
}

/**
 * A function that sends a datagram to a socket of the family unix, whose address is a path or, after "@", an abstract
 * name; it answers whether the socket took it, and never waits. The message comes from this process, not from a helper
 * of another pid. Undefined for another form of address, and where the C library cannot be called.
 */
export function datagramsTo(address: string): ((text: string) => boolean) | undefined {
  const name = Buffer.from(address.replace(/^@/, '\0'))
  // A path ends with an octet of zero, an abstract name with its length.
  const length = 2 + name.length + (name[0] === 0 ? 0 : 1)
  if (!/^[/@]./.test(address) || name.length >= LONGEST_PATH) return undefined
  const to = Buffer.alloc(2 + LONGEST_PATH)
  if (endianness() === 'LE') to.writeUInt16LE(AF_UNIX)
  else to.writeUInt16BE(AF_UNIX)
  name.copy(to, 2)
  const library = cLibrary()
  const socket = library?.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) ?? -1
  if (library === undefined || socket < 0) return undefined
  return (text) => {
    const octets = Buffer.from(text)
    const sent = library.sendto(socket, octets, BigInt(octets.length), MSG_DONTWAIT | MSG_NOSIGNAL, to, length)
    return sent === BigInt(octets.length)
  }
}

/**
 * Ends the process at once (_exit(2)). process.exit() waits for every thread, so for ever for one that the system holds
 * in a call. Without the function of the C library the process ends by SIGKILL.
 */
export function exitAtOnce(status: number): never {
  cLibrary()?._exit(status)
  process.kill(process.pid, 'SIGKILL')
  throw new Error('The process did not end.')
}

/**
 * A function that collects all garbage of the JavaScript heap of this thread; the thread stands meanwhile (about 50 ms
 * for a server that has just started).
 */
export function collector(): () => void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as (options: object) => void
  return () => gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/** So many octets of buffers are collected at a time. */
const GATHERED = 8 * 1024 * 1024

/**
 * A function that hears how many octets have gone through streams, and collects their buffers each 8 MB, which takes
 * about a millisecond. V8, which sees little of a buffer in its heap, would let more than 50 MB of them gather.
 */
export function bufferCollector(): (octets: number) => void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as (options: object) => void
  let gathered = 0
  return (octets) => {
    gathered += octets
    if (gathered < GATHERED) return
    gathered = 0
    gc({ type: 'minor', execution: 'sync' })
  }
}

/** The number of ioprio_set(2), which the C library has no function for. */
const IOPRIO_SET: Partial<Record<string, bigint>> = { x64: 251n, arm64: 30n }
const OF_PROCESS = 1n
/** IOPRIO_CLASS_IDLE, in the upper bits. */
const IDLE = 3n << 13n

/** Lets a process read and write the disk only when no other does; nothing where the system does not. */
export function idleInput(pid: number): void {
  const number = IOPRIO_SET[process.arch]
  if (number !== undefined) cLibrary()?.syscall(number, OF_PROCESS, BigInt(pid), IDLE)
}
