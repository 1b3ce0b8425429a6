// `npm run bench -- profile`: where the main thread of a server spends its time while emails are posted and delivered,
// as a table of the functions with the largest share of its own time. Shares hold on a busy machine too.
import type { Runtime } from 'node:inspector'
import { Session } from 'node:inspector/promises'
import { arrived, figure, mailBody, post, startServer, startSink } from './rig.ts'

const BENCH = 'profile'
const ROWS = 25
const POSTERS = 50

export interface Share {
  /** The function with its file and line. */
  place: string
  /** Its share of the time in which the thread was not idle. */
  share: number
}

export interface Profile {
  /** The share of the time in which the thread was idle. */
  idle: number
  top: Share[]
}

/** In the process that is measured: begins a profile of its main thread. The returned function ends it. */
export async function profiled(): Promise<() => Promise<Profile>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: 200 })
  await session.post('Profiler.start')
  return async () => {
    const { profile } = await session.post('Profiler.stop')
    session.disconnect()
    const times = new Map<number, number>()
    for (const [index, id] of profile.samples!.entries())
      times.set(id, (times.get(id) ?? 0) + profile.timeDeltas![index]!)
    const places = new Map<string, number>()
    // The functions of an addon have no name: they are named after their callers.
    const callers = new Map(
      profile.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node] as const)),
    )
    for (const { callFrame, id } of profile.nodes) {
      const nameless = callFrame.functionName === '' && callFrame.url === ''
      const place = nameless ? `addon, from ${nameOf(callers.get(id)!.callFrame)}` : nameOf(callFrame)
      places.set(place, (places.get(place) ?? 0) + (times.get(id) ?? 0))
    }
    const all = [...places.values()].reduce((sum, time) => sum + time, 0)
    const idle = places.get('(idle)') ?? 0
    places.delete('(idle)')
    const top = [...places]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, ROWS)
      .map(([place, time]) => ({ place, share: time / (all - idle) }))
    return { idle: idle / all, top }
  }
}

function nameOf({ functionName, lineNumber, url }: Runtime.CallFrame): string {
  const file = url.replace(/^.*\/(?=src\/|node_modules\/)/, '').replace(/^node_modules\/.*node_modules\//, '')
  return file === '' ? functionName : `${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`
}

export async function profile(count: number): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    const body = (index: number): string => mailBody(index, { text: `Mail ${index}` })
    await post({ port: server.port, token: server.token, count: 300, posters: POSTERS, body })
    await arrived(sink, 300)
    await server.ask('profile')
    await post({ port: server.port, token: server.token, count, posters: POSTERS, body })
    await arrived(sink, count + 300)
    const { idle, top } = (await server.ask('top')).profile
    figure(BENCH, 'idle', idle * 100, '%')
    for (const { place, share } of top) figure(BENCH, place, share * 100, '%')
  } finally {
    await server.stop()
    sink.stop()
  }
}
