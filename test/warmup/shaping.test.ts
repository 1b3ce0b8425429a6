// The shaping file and an operator's own beside it.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { providerOf } from '../../src/smtp/shaping.ts'
import { readShaping, shapingRules, useShaping } from '../../src/smtp/shaping-file.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ladderOf } from '../../src/warmup/ladder.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-shaping-'))
const file = join(folder, 'shaping.toml')
after(() => {
  useShaping('')
  rmSync(folder, { recursive: true })
})

const own = (text: string): ReturnType<typeof readShaping> => {
  writeFileSync(file, text)
  return readShaping(file)
}

describe('an own shaping file', () => {
  test('replaces shipped entries of the same name, and what it leaves out stays (DV2)', () => {
    const rules = own(`[warmup]
least = 50
hold = { deferred = 0.01 }

[[provider]]
name = "Google"
ladder = [7, 9]

[[provider]]
name = "Mine"
hosts = ["mx.mine.test"]
back = { bounced = 0.5 }
`)
    const google = ladderOf(rules, 'Google')
    assert.deepEqual([google.steps, google.least, google.hold.deferred], [[7, 9], 50, 0.01])
    const entry = rules.provider.find(({ name }) => name === 'Google')
    assert.deepEqual([entry?.domain_connections, entry?.hosts[0]], [10, 'google.com'])
    assert.equal(rules.provider.filter(({ name }) => name === 'Google').length, 1)
    const mine = ladderOf(rules, 'Mine')
    assert.deepEqual([mine.back.bounced, mine.back.refused, mine.steps[0]], [0.5, 0.02, 50])
    assert.equal(ladderOf(rules, 'elsewhere.test').steps[0], 20)
  })

  test('a wrong line is one sentence with file and line (DV2)', () => {
    for (const [text, line, words] of [
      ['[warmup]\nladder = [10, 20, 20]\n', 2, '"warmup.ladder" must rise from each number to the next.'],
      ['[warmup]\n\nothers = []\n', 3, '"warmup.others" must have at least 1 item.'],
      ['[warmup]\nhold = { deferred = 0.2 }\n', 2, '"hold.deferred" must lie below "back.deferred".'],
      [
        '[[provider]]\nname = "Yahoo"\nback = { refused = 0.005 }\n',
        3,
        '"hold.refused" must lie below "back.refused".',
      ],
      ['[warmup]\nleast = 0\n', 2, '"warmup.least" must be at least 1.'],
      ['[warmup]\nfaster = true\n', 2, '"warmup.faster" is not a setting; remove it or correct its name.'],
      ['[[provider]]\nname = "Mine"\n', 2, '"hosts" is missing: no shipped provider is called "Mine".'],
      ['[[provider]]\nhosts = ["x.test"]\n', 1, '"provider.0.name" is missing.'],
      [
        '[[provider]]\nname = "*"\nhosts = ["x.test"]\n',
        2,
        /^.*"provider.0.name" must be visible text, and not "\*", /,
      ],
      ['[[provider]]\nname = "a\\u202eb"\nhosts = ["x.test"]\n', 2, /"provider.0.name" must be visible text/],
      [
        '[[provider]]\nname = "Yahoo"\nladder = [5]\n[[provider]]\nname = "Yahoo"\n',
        5,
        '"Yahoo" stands twice; make one of both.',
      ],
      ['[warmup\n', 1, /this is not TOML/],
    ] as const)
      assert.throws(
        () => own(text),
        ({ message }: Error) =>
          message.startsWith(`${file}:${line}: `) &&
          !message.includes('\n') &&
          (typeof words === 'string' ? message === `${file}:${line}: ${words}` : words.test(message)),
        text,
      )
    assert.throws(() => readShaping(join(folder, 'absent.toml')), /"delivery.shaping" cannot be read/)
  })

  test('read again when it is wrong, the rules in force stay (DV2)', () => {
    writeFileSync(file, '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nladder = [3, 5]\n')
    useShaping(file)
    assert.equal(providerOf('a.mx.mine.test'), 'Mine')
    writeFileSync(file, '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nladder = [5, 3]\n')
    assert.throws(() => useShaping(file), /must rise/)
    assert.deepEqual(ladderOf(shapingRules(), 'Mine').steps, [3, 5])
    useShaping('')
    assert.equal(providerOf('a.mx.mine.test'), undefined)
  })
})

describe('a server', () => {
  const good = '[[provider]]\nname = "Mine"\nhosts = ["mx.mine.test"]\nladder = [3, 5]\n'
  const wrong = good.replace('[3, 5]', '[5, 3]')
  const sentence = new RegExp(`^${file}:4: "provider\\.0\\.ladder" must rise from each number to the next\\.$`)

  test('does not start with a wrong line (DV2)', async () => {
    writeFileSync(file, wrong)
    await assert.rejects(startTestAppliance({ config: { delivery: { shaping: file } } }), { message: sentence })
  })

  test('told to read it again keeps the rules in force while a line is wrong (DV2)', async () => {
    writeFileSync(file, good)
    await using postrider = await startTestAppliance({ config: { delivery: { shaping: file } } })
    writeFileSync(file, wrong)
    await assert.rejects(postrider.appliance.reload(), { message: sentence })
    assert.deepEqual(ladderOf(shapingRules(), 'Mine').steps, [3, 5])
    writeFileSync(file, good.replace('5]', '50]'))
    await postrider.appliance.reload()
    assert.deepEqual(ladderOf(shapingRules(), 'Mine').steps, [3, 50])
  })
})
