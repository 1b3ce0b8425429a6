// The console of a busy server: a month of email in the store, 200 emails per second posted and sent to the sink.
// Measures time to first byte and size of each page, the search, and the cost of users who follow live pages.
import { Agent, get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fillStore, type Filled } from './full-store.ts'
import { figure, mailBody, percentile, post, type Server, type Sink, startServer, startSink } from './rig.ts'

const BENCH = 'console'
const RATE = 200
/** Requests of each page, and fewer of a page that has taken this many ms in all. */
const ROUNDS = 100
const LONG = 6000
const FEWEST = 10
const PEOPLE = 20
/** Emails of one round with live pages, and of one without. */
const OUTBOUND = 3000

export async function console_(mails: number): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    const start = performance.now()
    const filled = fillStore(server.dataDir, mails, PEOPLE)
    figure(BENCH, 'filled', (performance.now() - start) / 1000, 's')
    await settled(server, filled)
    const every = Object.entries(places(filled))
    const isSearch = ([name]: [string, string]): boolean => name.startsWith('search')
    const [cookie] = filled.cookies
    await pages(server, sink, { beside: 'pages', cookie: cookie!, every: every.filter((each) => !isSearch(each)) })
    await pages(server, sink, { beside: 'searches', cookie: cookie!, every: every.filter(isSearch) })
    await livePages(server, sink, filled)
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** Every page by its name, and in several variants if the query makes a difference. */
const places = ({ address, audience, campaign, inbox, mail, webhook }: Filled): Record<string, string> => ({
  overview: '/',
  overview_of_a_month: '/?period=30d',
  mail: '/mail',
  one_mail: `/mail/${mail}`,
  receivers: '/receivers',
  receivers_of_a_month: '/receivers?period=30d',
  queue: '/queue',
  campaigns: '/campaigns',
  one_campaign: `/campaigns/${campaign}`,
  one_campaign_bounced: `/campaigns/${campaign}/recipients?status=bounced`,
  audiences: '/audiences',
  one_audience: `/audiences/${audience}`,
  suppressions: '/suppressions',
  domains: '/domains',
  one_domain: '/domains/bench.example',
  webhooks: '/webhooks',
  one_webhook: `/webhooks/${webhook}`,
  inboxes: '/inboxes',
  one_inbox: `/inboxes/${inbox}`,
  tokens: '/tokens',
  agents: '/agents',
  privacy: '/privacy',
  server: '/server',
  people: '/people',
  account: '/account',
  search_address: `/mail?q=${encodeURIComponent(address)}`,
  search_to: `/mail?q=${encodeURIComponent(`to:${address.slice(0, -8)}`)}`,
  search_unknown_address: '/mail?q=nobody%40nowhere.example',
  search_suppressed_address: '/suppressions?q=gone77%40d77.example',
  search_contact: `/audiences/${audience}?q=reader777`,
  search_common_word: '/mail?q=shipped',
  search_rare_word: '/mail?q=zeppelin',
  search_old_word: '/mail?q=xylophone',
  search_no_word: '/mail?q=quixotic',
  search_part_of_a_word: '/mail?q=eppeli',
  search_two_words: '/mail?q=invoice+123456',
  search_subject: '/mail?q=subject%3A%22a+zeppelin+for%22',
  search_campaign_word: '/mail?q=%22week+777%22',
  search_number: '/mail?q=123456',
})

interface Shown {
  status: number
  /** Milliseconds to the first byte of the answer. */
  first: number
  octets: number
}

const agent = new Agent({ keepAlive: true })

/** `follows`: a script of the page requests its live part again. */
function open(server: Server, cookie: string, path: string, follows = false): Promise<Shown> {
  return new Promise((resolve, reject) => {
    const start = performance.now()
    const answered = (answer: IncomingMessage): void => {
      const first = performance.now() - start
      let octets = 0
      answer.on('data', (chunk: Buffer) => (octets += chunk.length))
      answer.on('end', () => resolve({ status: answer.statusCode!, first, octets }))
      answer.on('error', reject)
    }
    const headers = { cookie, ...(follows ? { 'hx-request': 'true' } : {}) }
    get({ agent, port: server.port, host: '127.0.0.1', path, headers }, answered).on('error', reject)
  })
}

/** Waits until the server has processed the rows that were written outside it. */
async function settled(server: Server, { cookies }: Filled): Promise<void> {
  for (let quiet = 0; quiet < 5;) {
    const before = await server.ask('report')
    await sleep(1000)
    quiet = (await server.ask('report')).cpuMs - before.cpuMs < 50 ? quiet + 1 : 0
  }
  const { status } = await open(server, cookies[0]!, '/')
  if (status !== 200) throw new Error(`The overview answers ${status}.`)
}

/** Requests pages one after the other while email is sent. */
async function pages(
  server: Server,
  sink: Sink,
  { beside, cookie, every }: { beside: string; cookie: string; every: [string, string][] },
): Promise<void> {
  const times = new Map<string, number[]>(every.map(([name]) => [name, []]))
  const sizes = new Map<string, number>()
  const before = sink.count()
  const load = posting(server, RATE)
  await sleep(2000)
  // In turn, so that other load of the machine affects all.
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, path] of every) {
      const sum = times.get(name)!.reduce((one, other) => one + other, 0)
      if (round >= FEWEST && sum > LONG) continue
      const { first, octets, status } = await open(server, cookie, path)
      if (status !== 200) throw new Error(`${path} answers ${status}.`)
      times.get(name)!.push(first)
      sizes.set(name, octets)
    }
  const { latencies, wallMs } = await load.end()
  figure(BENCH, `posted_beside_${beside}`, (latencies.length / wallMs) * 1000, 'mails/s')
  figure(BENCH, `sent_beside_${beside}`, ((sink.count() - before) / wallMs) * 1000, 'mails/s')
  figure(BENCH, `posted_201_p99_beside_${beside}`, percentile(latencies, 0.99), 'ms')
  for (const [name] of every) {
    figure(BENCH, `${name}_p50`, percentile(times.get(name)!, 0.5), 'ms')
    figure(BENCH, `${name}_p99`, percentile(times.get(name)!, 0.99), 'ms')
    figure(BENCH, `${name}_size`, sizes.get(name)! / 1000, 'KB')
  }
}

/** Posts at a rate until it is ended. */
function posting(server: Server, rate: number): { end(): Promise<{ latencies: number[]; wallMs: number }> } {
  let ended = false
  const run = async (): Promise<{ latencies: number[]; wallMs: number }> => {
    const start = performance.now()
    const latencies: number[] = []
    const body = (index: number): string => mailBody(index)
    while (!ended) latencies.push(...(await post({ ...server, count: rate, posters: 40, body, rate })).latencies)
    return { latencies, wallMs: performance.now() - start }
  }
  const running = run()
  return {
    end() {
      ended = true
      return running
    },
  }
}

/** A user who follows a page: the stream, and the page again after each change. */
function follow(server: Server, cookie: string, path: string): { end(): number } {
  let ended = false
  let drawn = 0
  let asking = false
  const request = get(
    { agent: false, port: server.port, host: '127.0.0.1', path: '/live', headers: { cookie } },
    (stream) => {
      stream.on('error', () => {})
      stream.on('data', (chunk: Buffer) => {
        if (ended || asking || !chunk.includes('event: changed')) return
        asking = true
        void open(server, cookie, path, true)
          .then(() => drawn++)
          .catch(() => {})
          .finally(() => (asking = false))
      })
    },
  ).on('error', () => {})
  return {
    end() {
      ended = true
      request.destroy()
      return drawn
    },
  }
}

async function outbound(server: Server, sink: Sink): Promise<{ rate: number; cpu: number }> {
  const before = sink.count()
  const { cpuMs } = await server.ask('report')
  const start = performance.now()
  await post({ ...server, count: OUTBOUND, posters: 50, body: (index) => mailBody(index) })
  while (sink.count() < before + OUTBOUND) {
    if (performance.now() - start > 120_000) throw new Error(`${sink.count() - before} of ${OUTBOUND} at the sink`)
    await sleep(2)
  }
  const rate = (OUTBOUND / (performance.now() - start)) * 1000
  return { rate, cpu: ((await server.ask('report')).cpuMs - cpuMs) / OUTBOUND }
}

/** Pages that users leave open, the most requested first. */
async function livePages(server: Server, sink: Sink, filled: Filled): Promise<void> {
  const { campaign, mail } = filled
  const paths = ['/', '/mail', `/campaigns/${campaign}`, '/receivers', `/mail/${mail}`]
  const [without, with_]: { rate: number; cpu: number }[][] = [[], []]
  await outbound(server, sink)
  let drawn = 0
  // In turn, so that other load of the machine affects both.
  for (let round = 0; round < 5; round++) {
    without!.push(await outbound(server, sink))
    const people = filled.cookies.map((cookie, index) => follow(server, cookie, paths[index % paths.length]!))
    await sleep(1000)
    with_!.push(await outbound(server, sink))
    for (const person of people) drawn += person.end()
    await sleep(1000)
  }
  const median = (rounds: { rate: number; cpu: number }[], of: 'rate' | 'cpu'): number =>
    percentile(
      rounds.map((round) => round[of]),
      0.5,
    )
  figure(BENCH, 'outbound', median(without!, 'rate'), 'mails/s')
  figure(BENCH, 'outbound_with_20_live_pages', median(with_!, 'rate'), 'mails/s')
  figure(BENCH, 'live_pages_cost', (1 - median(with_!, 'rate') / median(without!, 'rate')) * 100, '%')
  figure(BENCH, 'cpu_per_mail', median(without!, 'cpu'), 'ms')
  figure(BENCH, 'cpu_per_mail_with_20_live_pages', median(with_!, 'cpu'), 'ms')
  figure(BENCH, 'live_pages_drawn', drawn, '')
}
