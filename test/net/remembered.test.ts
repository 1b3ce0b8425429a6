// The DNS cache: one query per name, for a limited time, and never for a failure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AnswerMemory, remembering } from '../../src/net/remembered.ts'
import type { ResolverAnswer, Mx, Resolver } from '../../src/net/resolver.ts'
import { ManualClock } from '../kit/clock.ts'

/** A resolver that counts its queries and answers with the last value that was set for the type. */
function counting() {
  const answers = new Map<string, ResolverAnswer<string | Mx> | Error>()
  const asked: string[] = []
  const answer =
    (type: string) =>
    async (name: string): Promise<never> => {
      asked.push(`${type} ${name}`)
      const set = answers.get(`${type} ${name.toLowerCase()}`) ?? { kind: 'nxdomain' }
      if (set instanceof Error) throw set
      return set as never
    }
  const resolver: Resolver = {
    mx: answer('MX'),
    txt: answer('TXT'),
    a: answer('A'),
    aaaa: answer('AAAA'),
    cname: answer('CNAME'),
    ptr: answer('PTR'),
    tlsa: answer('TLSA'),
  }
  const clock = new ManualClock()
  const remembered = remembering(resolver, clock)
  const ask = async (name: string, type: string) => (await remembered(name, type)).answer
  return { answers, asked, clock, ask, remembered }
}

const spf = (text: string): ResolverAnswer<string> => ({ kind: 'found', records: [text] })

test('queries a name once in 30 s in any letter case, and again after that', async () => {
  const { answers, ask, asked, clock } = counting()
  answers.set('TXT sender.test', spf('v=spf1 -all'))
  assert.deepEqual(await Promise.all([ask('sender.test', 'TXT'), ask('Sender.Test', 'TXT')]), [
    spf('v=spf1 -all'),
    spf('v=spf1 -all'),
  ])
  answers.set('TXT sender.test', spf('v=spf1 +all'))
  clock.advance(29_999)
  assert.deepEqual(await ask('sender.test', 'TXT'), spf('v=spf1 -all'))
  assert.equal(asked.length, 1)
  clock.advance(1)
  assert.deepEqual(await ask('sender.test', 'TXT'), spf('v=spf1 +all'))
  assert.equal(asked.length, 2)
})

test('caches each record type separately, including negative answers', async () => {
  const { answers, ask, asked } = counting()
  answers.set('A host.test', { kind: 'none' })
  for (let time = 0; time < 2; time++) {
    assert.deepEqual(await ask('host.test', 'A'), { kind: 'none' })
    assert.deepEqual(await ask('host.test', 'MX'), { kind: 'nxdomain' })
  }
  assert.deepEqual(asked, ['A host.test', 'MX host.test'])
})

test('queries again after a failed lookup', async () => {
  const { answers, ask, asked } = counting()
  answers.set('TXT sender.test', { kind: 'failed', reason: 'ETIMEOUT' })
  assert.equal((await ask('sender.test', 'TXT')).kind, 'failed')
  answers.set('TXT sender.test', new Error('broken'))
  await assert.rejects(ask('sender.test', 'TXT'), /broken/)
  answers.set('TXT sender.test', spf('v=spf1 -all'))
  assert.equal((await ask('sender.test', 'TXT')).kind, 'found')
  assert.equal(asked.length, 3)
})

test('bounds the memory for hostile answers and names', async () => {
  const { answers, ask, asked } = counting()
  const many = { kind: 'found' as const, records: Array.from({ length: 100 }, () => 'x'.repeat(60)) }
  answers.set('TXT large.test', many)
  const long = 'x'.repeat(300)
  for (const name of ['large.test', 'large.test', long, long]) await ask(name, 'TXT')
  assert.equal(asked.length, 4, 'neither is kept')

  await ask('first.test', 'TXT')
  for (let n = 0; n < 500; n++) await ask(`n${n}.test`, 'TXT')
  asked.length = 0
  await ask('n1.test', 'TXT')
  assert.deepEqual(asked, [])
  await ask('first.test', 'TXT')
  assert.deepEqual(asked, ['TXT first.test'], 'the oldest went')
})

test('keeps an answer until its TTL expires, and never a failure', async () => {
  const { answers, clock, remembered } = counting()
  answers.set('TXT sender.test', spf('v=spf1 -all'))
  answers.set('TXT failing.test', { kind: 'failed', reason: 'ETIMEOUT' })
  const { until } = await remembered('sender.test', 'TXT')
  assert.equal(until, clock.now() + 30_000)
  clock.advance(10_000)
  assert.equal((await remembered('sender.test', 'TXT')).until, until, 'a later question does not prolong it')
  assert.equal((await remembered('failing.test', 'TXT')).until, 0)
})

test('drops expired answers, and the oldest ones beyond its limit', () => {
  const memory = new AnswerMemory<number>()
  memory.keep('A.test', 'TXT', 1, 100)
  assert.deepEqual([memory.get('a.test', 'TXT', 99), memory.get('a.test', 'TXT', 100)], [1, undefined])
  const forget = memory.keep('b.test', 'TXT', 2, 100)
  forget()
  assert.equal(memory.get('b.test', 'TXT', 0), undefined)
  for (let n = 0; n < 500; n++) memory.keep(`${n}.test`, 'TXT', n, 100)
  assert.deepEqual([memory.get('a.test', 'TXT', 0), memory.get('0.test', 'TXT', 0)], [undefined, 0])
})
