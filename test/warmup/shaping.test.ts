// The shaping file of the release and a custom one.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { providerOf, readShaping, shapingRules, useShaping } from '../../src/smtp/shaping.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { scheduleOf } from '../../src/warmup/schedule.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('shaping')
const file = join(folder, 'shaping.toml')
after(() => {
  useShaping('')
})

const own = (text: string): ReturnType<typeof readShaping> => {
  writeFileSync(file, text)
  return readShaping(file)
}

describe('a custom shaping file', () => {
  test('replaces built-in entries of the same name, and keeps the attributes that it omits', () => {
    const rules = own(`[warmup]
least = 50
hold = { deferred = 0.01 }

[[provider]]
name = "Google"
schedule = [7, 9]

[[provider]]
name = "Mine"
hosts = ["mx.mine.test"]
reduce = { bounced = 0.5 }
`)
    const google = scheduleOf(rules, 'Google')
    assert.deepEqual([google.steps, google.least, google.hold.deferred], [[7, 9], 50, 0.01])
    const entry = rules.provider.find(({ name }) => name === 'Google')
    assert.deepEqual([entry?.domain_connections, entry?.hosts[0]], [10, 'google.com'])
    assert.equal(rules.provider.filter(({ name }) => name === 'Google').length, 1)
    const mine = scheduleOf(rules, 'Mine')
    assert.deepEqual([mine.reduce.bounced, mine.reduce.refused, mine.steps[0]], [0.5, 0.02, 50])
    assert.equal(scheduleOf(rules, 'elsewhere.test').steps[0], 20)
  })

  test('reports an invalid line in one sentence with file and line', () => {
    for (const [text, line, words] of [
      ['[warmup]\nschedule = [10, 20, 20]\n', 2, '"warmup.schedule" must rise from each number to the next.'],
      ['[warmup]\n\nothers = []\n', 3, '"warmup.others" must have at least 1 item.'],
      ['[warmup]\nhold = { deferred = 0.2 }\n', 2, '"hold.deferred" must be less than "reduce.deferred".'],
      [
        '[[provider]]\nname = "Yahoo"\nreduce = { refused = 0.005 }\n',
        3,
        '"hold.refused" must be less than "reduce.refused".',
      ],
      ['[warmup]\nleast = 0\n', 2, '"warmup.least" must be at least 1.'],
      ['[warmup]\nfaster = true\n', 2, '"warmup.faster" is not a setting; remove it or correct its name.'],
      [
        '[[provider]]\nname = "Mine"\n',
        2,
        '"hosts" is missing; add it, or use the name of a built-in provider instead of "Mine".',
      ],
      ['[[provider]]\nhosts = ["x.test"]\n', 1, '"provider.0.name" is missing.'],
      [
        '[[provider]]\nname = "*"\nhosts = ["x.test"]\n',
        2,
        /^.*"provider.0.name" must be visible text, and not "\*", /,
      ],
      ['[[provider]]\nname = "a\\u202eb"\nhosts = ["x.test"]\n', 2, /"provider.0.name" must be visible text/],
      [
        '[[provider]]\nname = "Yahoo"\nschedule = [5]\n[[provider]]\nname = "Yahoo"\n',
        5,
        '"Yahoo" is listed twice; merge the two entries.',
      ],
      ['[warmup\n', 1, /invalid TOML/],
    ] as const)
      assert.throws(
        () => own(text),
        ({ message }: Error) =>
          message.startsWith(`${file}:${line}: `) &&
          !message.includes('\n') &&
          (typeof words === 'string' ? message === `${file}:${line}: ${words}` : words.test(message)),
        text,
      )
    assert.throws(() => readShaping(join(folder, 'absent.toml')), /\("delivery.shaping"\) cannot be read/)
  })

  test('keeps the current rules if the file is invalid on a reload', () => {
    writeFileSync(file, '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nschedule = [3, 5]\n')
    useShaping(file)
    assert.equal(providerOf('a.mx.mine.test'), 'Mine')
    writeFileSync(file, '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nschedule = [5, 3]\n')
    assert.throws(() => useShaping(file), /must rise/)
    assert.deepEqual(scheduleOf(shapingRules(), 'Mine').steps, [3, 5])
    useShaping('')
    assert.equal(providerOf('a.mx.mine.test'), undefined)
  })
})

describe('a server', () => {
  const good = '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nschedule = [3, 5]\n'
  const wrong = good.replace('[3, 5]', '[5, 3]')
  const sentence = new RegExp(`^${file}:4: "provider\\.0\\.schedule" must rise from each number to the next\\.$`)

  test('does not start with an invalid line', async () => {
    writeFileSync(file, wrong)
    await assert.rejects(startTestAppliance({ config: { delivery: { shaping: file } } }), { message: sentence })
  })

  test('keeps the current rules on a reload with an invalid line', async () => {
    writeFileSync(file, good)
    await using postrider = await startTestAppliance({ config: { delivery: { shaping: file } } })
    writeFileSync(file, wrong)
    await assert.rejects(postrider.appliance.reload(postrider.appliance.deps.config), { message: sentence })
    assert.deepEqual(scheduleOf(shapingRules(), 'Mine').steps, [3, 5])
    writeFileSync(file, good.replace('5]', '50]'))
    await postrider.appliance.reload(postrider.appliance.deps.config)
    assert.deepEqual(scheduleOf(shapingRules(), 'Mine').steps, [3, 50])
  })
})
