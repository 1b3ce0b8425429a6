// Emails posted over the API and delivered to a loopback sink: DKIM signed, durable, one recipient each. In the same
// run Postfix with OpenDKIM relays as many emails of the same size to the same kind of sink, if both are installed.
import { benchPostfix, missing } from './peer/postfix.ts'
import { large } from './large.ts'
import { posts } from './posts.ts'
import { spread } from './spread.ts'
import { arrived, figure, html, mailBody, percentile, startServer, startSink } from './rig.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'

const BENCH = 'outbound'
const POSTERS = 50
const WARM = 300

/** A kind of email: the request body, and the size of the peer's. */
export interface Kind {
  body: (index: number) => string
  /** The bytes of our email between its header and the final dot. */
  wireBytes: number
}
/** With a text, because otherwise it is made from the HTML, which doubles the bytes to sign and send. */
export const SMALL: Kind = { body: (index) => mailBody(index, { text: `Mail ${index}` }), wireBytes: 4800 }
export const LARGE: Kind = {
  body: (index) => mailBody(index, { text: `Mail ${index}`, html: html(index, 100 * 1024) }),
  wireBytes: 104_300,
}

export async function outbound(count: number): Promise<void> {
  const absent = missing()
  const { ours, postfix_opendkim: peer } = await inTurn(3, {
    ours: () => posted(count, SMALL),
    ...(absent.length > 0 ? {} : { postfix_opendkim: () => relayed(count, SMALL) }),
  })
  tell(BENCH, 'ours', ours)
  if (peer) {
    tell(BENCH, 'postfix_opendkim', peer)
    figure(BENCH, 'ratio', ours.perSecond / peer.perSecond, 'times')
  } else figure(BENCH, 'postfix_opendkim', `not installed: ${absent.join(', ')}`, '')
  const { p50, p99 } = await paced()
  figure(BENCH, 'paced_400_per_s_201_p50', p50, 'ms')
  figure(BENCH, 'paced_400_per_s_201_p99', p99, 'ms')
  const made = await posted(count, { ...SMALL, body: mailBody })
  figure(BENCH, 'text_made_from_html_settled', made.perSecond, 'mails/s')
  await spread(count)
  await large()
}

/** One round of ours, on a separate server. */
export async function posted(count: number, { body }: Kind, cores?: string): Promise<Round> {
  const sink = await startSink()
  const server = await startServer(sink.port, {}, cores)
  try {
    const drive = (many: number) =>
      posts({ port: server.port, token: server.token, count: many, posters: POSTERS, body })
    // A first few hundred warm up caches and compilers, as a server that has been running is.
    await drive(WARM)
    await arrived(sink, WARM)
    return await measured(server, count, { drive: () => drive(count), settle: () => arrived(sink, WARM + count), sink })
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** One round of the peer. Before it, the signatures of some messages are checked. */
export const relayed = (count: number, { wireBytes }: Pick<Kind, 'wireBytes'>, cores?: string): Promise<Round> =>
  benchPostfix({ count, bytes: wireBytes, concurrency: POSTERS, ...(cores === undefined ? {} : { cores }) })

/** The response time of a 201 at 400 emails per second, as from a busy application, with 50 posters that pause. */
export async function paced(count = 2000): Promise<{ p50: number; p99: number; generator: string }> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    const load = { port: server.port, token: server.token, posters: POSTERS, body: SMALL.body }
    await posts({ ...load, count: WARM })
    await arrived(sink, WARM)
    const { latencies, generator } = await posts({ ...load, count, rate: 400 })
    return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99), generator }
  } finally {
    await server.stop()
    sink.stop()
  }
}
