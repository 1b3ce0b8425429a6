// The same email posted to the API and to the compatibility APIs, in turn: the CPU time of the server for each email,
// until it is delivered. Mailgun's clients send multipart forms, and some send urlencoded ones.
import { arrived, figure, html, mailBody, post, requestOf, startServer, startSink } from './rig.ts'
import { driven } from './posts.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'

const BENCH = 'compat'
const POSTERS = 50
const BOUNDARY = '----bench2f1c8a'

const MORE = { text: 'Hello there' }
const fieldsOf = (index: number): Record<string, string> => ({
  from: 'hello@bench.example',
  to: `reader${index}@receiver.example`,
  subject: `Mail ${index}`,
  html: html(index),
  ...MORE,
})

const multipart = (index: number): string =>
  Object.entries(fieldsOf(index))
    .map(([name, text]) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`)
    .join('') + `--${BOUNDARY}--\r\n`

const withHead =
  (path: string, type: string, authorization: (token: string) => string) =>
  (token: string, body: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: ${authorization(token)}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const basic = (token: string): string => `Basic ${Buffer.from(`api:${token}`).toString('base64')}`
const toMailgun = (type: string) => withHead('/v3/bench.example/messages', type, basic)

const KINDS = {
  api: { body: (index: number) => mailBody(index, MORE), request: requestOf },
  resend: {
    body: (index: number) => JSON.stringify(fieldsOf(index)),
    request: withHead('/resend/emails', 'application/json', (token) => `Bearer ${token}`),
  },
  mailgun: { body: multipart, request: toMailgun(`multipart/form-data; boundary=${BOUNDARY}`) },
  mailgun_urlencoded: {
    body: (index: number) => new URLSearchParams(fieldsOf(index)).toString(),
    request: toMailgun('application/x-www-form-urlencoded'),
  },
}

export async function compat(count: number, rounds: number): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  const round = (kind: keyof typeof KINDS, many = count): Promise<Round> => {
    const before = sink.count()
    return measured(server, many, {
      drive: () => driven('node', () => post({ ...server, ...KINDS[kind], count: many, posters: POSTERS })),
      settle: () => arrived(sink, before + many),
      sink,
    })
  }
  try {
    const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[]
    for (const kind of kinds) await round(kind, 500)
    const medians = await inTurn<Record<string, () => Promise<Round>>>(
      rounds,
      Object.fromEntries(kinds.map((kind) => [kind, () => round(kind)])),
    )
    const { cpuMs, mainCpuMs } = medians['api']!
    for (const [kind, median] of Object.entries(medians)) {
      tell(BENCH, kind, median)
      figure(BENCH, `${kind}_more_cpu`, (median.cpuMs / cpuMs - 1) * 100, '%')
      figure(BENCH, `${kind}_more_main_thread_cpu`, (median.mainCpuMs! / mainCpuMs! - 1) * 100, '%')
    }
  } finally {
    await server.stop()
    sink.stop()
  }
}
