// Assembles the reception of mail: the listeners, the engine that processes messages, and its worker threads.
import { SECOND } from '../base/clock.ts'
import { isSmall, threadsHere } from '../base/memory.ts'
import { collector, trimmer } from '../base/native.ts'
import { semaphore, type TaskTurns } from '../base/semaphore.ts'
import { Pool } from '../base/threads/pool.ts'
import { remembering } from '../net/remembered.ts'
import type { Space } from '../base/space.ts'
import { listenError } from '../http/listen.ts'
import { InboundEngine } from '../inbound/reading.ts'
import { Reception } from '../inbound/receive.ts'
import type { InboundJob, InboundResult } from '../inbound/reader.ts'
import type { ReportReceiver } from '../parts/received.ts'
import { inTurns, unlimited } from '../inbound/queue.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import { startListener, type SmtpListener } from '../smtp/listener.ts'
import type { Host } from '../smtp/route.ts'
import type { Certificates } from '../acme/certificates.ts'
import type { EngineDeps } from './engine.ts'
import { clientWatch } from './client-watch.ts'
import { openEach, type Opening } from './ipv4-ipv6.ts'

export interface InboundParts extends EngineDeps {
  space: Space
  certificates: Certificates
  gate: DeliveryGate
  reports: ReportReceiver
}

export interface Inbound {
  engine: InboundEngine
  /** Reads messages while a client waits, for downloads of attachments and for SMTP submission. */
  files: Pick<Pool<InboundJob, InboundResult>, 'run'>
  listeners: SmtpListener[]
  /** The address of the first listener, for mail to domains on this server. */
  home(): Host | undefined
  /** Opens the listeners. Throws an OperatorError. */
  listen(opening: Pick<Opening, 'sandbox'>): Promise<void>
  stop(patience: number): Promise<void>
}

/** The minimum number of threads that read messages. With more cores there are more. */
const READERS = 2
/** JavaScript heap of each thread, in MB. */
const HEAP_MB = 384
/** CPU time for extracting one attachment from a message. */
const DOWNLOAD = 60 * SECOND
/** For a listener on all addresses, an address that reaches it. */
const LOOPBACK: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** Turns before each of which this thread gives back the memory that it does not use. */
function afterGivingBack(turns: TaskTurns, collect = collector(), trim = trimmer()): TaskTurns {
  return (work) =>
    turns(() => {
      collect()
      trim?.()
      return work()
    })
}

/** The pools of readers: for received messages, and for clients that wait. */
function createReaders({ clock, config, reports, resolver }: InboundParts) {
  const source = new URL('../inbound/reader.ts', import.meta.url)
  const ask = remembering(resolver, clock)
  const workers = new Pool<InboundJob, InboundResult>(source, {
    size: config.workers.count || threadsHere(READERS),
    heapMb: HEAP_MB,
    answer: async (asked) => {
      const { name, type } = asked as { name: string; type: string }
      return ask(name, type)
    },
  })
  // Separate threads, so that downloads do not delay the processing of messages.
  const files = new Pool<InboundJob, InboundResult>(source, {
    size: threadsHere(READERS, 1),
    heapMb: HEAP_MB,
    cpu: DOWNLOAD,
  })
  // With little memory, all readers together read one message file at a time (D139).
  const oneFile = isSmall() ? afterGivingBack(semaphore(1)) : undefined
  return {
    workers,
    readers: oneFile ? { ...inTurns(workers, oneFile, unlimited), size: workers.size } : workers,
    files: inTurns(files, oneFile),
    close: () => Promise.all([workers.close(), files.close(), reports.close()]),
  }
}

export function createInbound(parts: InboundParts): Inbound {
  const { clock, config } = parts
  const { close, files, readers, workers } = createReaders(parts)
  const engine = new InboundEngine({ ...parts, workers: readers })
  const listeners: SmtpListener[] = []
  const clientsAtWork = (): number => listeners.reduce((all, { atWork }) => all + atWork, 0)
  const reception = new Reception({ ...parts, engine, clientsAtWork })
  const watchClient = clientWatch(parts.log)
  return {
    engine,
    files,
    listeners,
    home() {
      const [first] = listeners
      return first && { name: config.hostname, port: first.port, address: LOOPBACK[first.host] ?? first.host }
    },
    async listen({ sandbox }) {
      const key = sandbox?.smtp?.option ?? 'smtp.listen'
      const certificate = parts.certificates.first('smtp')
      await openEach(config.smtp.listen, 'smtp', { log: parts.log, sandbox }, async (address) => {
        const listener = await startListener(address, {
          hostname: config.hostname,
          clock,
          certificate,
          maxBytes: config.inbound.max_message_bytes,
          maxConnections: config.smtp.max_connections,
          maxPerAddress: config.smtp.max_connections_per_address,
          welcome: () => (parts.space.low ? { code: 452, text: '4.3.1 Out of storage; try again later' } : undefined),
          recipient: (recipient) => reception.recipient(recipient),
          message: (bytes, envelope, sound) => {
            watchClient(envelope.client)
            return reception.message(bytes, envelope, sound)
          },
          fault: (thrown) => void parts.log.fault('inbound SMTP', thrown),
        }).catch((thrown: unknown) => {
          throw listenError(thrown, key, address)
        })
        parts.certificates.follow('smtp', (renewed) => listener.renew(renewed))
        listeners.push(listener)
      })
    },
    async stop(patience) {
      // After this time, messages still in progress are released for a later process.
      const late = setTimeout(() => void workers.close(), patience)
      await Promise.all(listeners.map((listener) => listener.close(patience)))
      await engine.stop(patience)
      clearTimeout(late)
      await close()
    },
  }
}
