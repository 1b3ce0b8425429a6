// doctor --grade: every row that is ours passes for a domain whose records are those that are printed, and fails when
// one is taken away.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { Commands } from '../commands/command.ts'

const HOST = 'mx.postrider.test'
let commands: Commands
let six: boolean
let listen: string[]

interface Row {
  category: string
  test: string
  result: string
  mend: string | null
}

/** A port that is free in both families; -1 where the machine has no IPv6. */
async function portOfBoth(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.once('error', () => resolve()).listen(0, '::1', resolve))
  const port = (server.address() as AddressInfo | null)?.port ?? -1
  await new Promise((resolve) => server.close(resolve))
  return port
}

setUp(async () => {
  const free = await portOfBoth()
  six = free > 0
  listen = six ? [`127.0.0.1:${free}`, `[::1]:${free}`] : ['127.0.0.1:0']
})
const postrider = ofFile(() => startTestAppliance({ config: { smtp: { listen } }, domains: ['here.test'] }))
setUp(async () => {
  const own = join(postrider.dataDir, 'ca.pem')
  writeFileSync(own, makeCertificate(HOST, Date.now()).cert)
  const { port } = postrider.appliance.smtp[0]!
  commands = Commands.beside(
    postrider,
    `[smtp]\nlisten = ["127.0.0.1:${port}"]\n[tls]\nca_file = "${join(postrider.dataDir, 'smtp-certificate.pem')}"\n[dns]\nservers = ["127.0.0.1:${postrider.dns.port}"]\n`,
  )
  const { dns } = postrider
  dns.set('here.test', 'MX', [`10 ${HOST}`])
  dns.set(HOST, 'A', ['127.0.0.1'])
  if (six) dns.set(HOST, 'AAAA', ['::1'])
  const { records } = await commands.json('domain', 'records', 'here.test')
  for (const { name, type, value } of records) if (type !== undefined) publish(type, name, value)
  publish('TXT', '_domainkey.here.test', 'notes about the keys')
  publish('TXT', '_dmarc.here.test', 'v=DMARC1; p=quarantine;')
  publish('CAA', HOST, '0 issue "letsencrypt.org"')
})
after(() => commands.close())

const published = new Map<string, string[]>()
function publish(type: string, name: string, value: string): void {
  const values = [...(published.get(`${type} ${name}`) ?? []), value]
  published.set(`${type} ${name}`, values)
  postrider.dns.set(name, type, values)
}

const graded = async (): Promise<{ code: number; points: number; of: number; rows: Row[] }> => {
  const { code, stdout } = await commands.run(['--json', 'doctor', '--grade', 'here.test'])
  return { code, ...JSON.parse(stdout) }
}
const failed = (rows: Row[]): string[] =>
  rows.filter(({ result }) => result === 'fail').map((row) => `${row.category} ${row.test}`)
/** What this machine cannot have. */
const NEVER = (): string[] => (six ? [] : ['ipv6 mx'])

test('all of what is ours passes; what is the DNS host’s is not ours', async () => {
  const { of, points, rows } = await graded()
  assert.deepEqual(failed(rows), NEVER())
  assert.equal(points, of - NEVER().length)
  const of2 = (category: string): string[] =>
    rows.filter((row) => row.category === category).map(({ result }) => result)
  assert.deepEqual(of2('dnssec'), ['not_ours', 'not_ours'], 'the test zone is not signed')
  assert.deepEqual(of2('rpki'), ['not_asked'])
  for (const { mend, result } of rows) assert.equal(mend !== null, result === 'fail' || result === 'not_ours')
  const { stdout } = await commands.run(['doctor', '--grade', 'here.test'])
  assert.match(stdout, /points of what is ours/)
})

test('each record that is taken away is told by its row, with the command that fixes it', async () => {
  const { dns } = postrider
  for (const [type, name, row] of [
    ['TXT', 'here.test', ['auth spf', 'auth spf_policy']],
    ['TXT', '_dmarc.here.test', ['auth dmarc', 'auth dmarc_policy']],
    ['TXT', '_domainkey.here.test', ['auth dkim']],
    ['CAA', HOST, ['certificate caa']],
    ['TLSA', `_25._tcp.${HOST}`, ['dane tlsa', 'dane tlsa_valid']],
  ] as const) {
    const before = published.get(`${type} ${name}`)!
    dns.set(name, type, undefined)
    const { code, rows } = await graded()
    assert.equal(code, 1)
    assert.deepEqual(
      failed(rows).filter((each) => !NEVER().includes(each)),
      [...row],
      `${type} ${name}`,
    )
    assert.ok(rows.filter(({ result }) => result === 'fail').every(({ mend }) => mend !== null))
    dns.set(name, type, before)
  }
  dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=none'])
  assert.ok(failed((await graded()).rows).includes('auth dmarc_policy'))
  dns.set(`_25._tcp.${HOST}`, 'TLSA', [`3 1 1 ${'00'.repeat(32)}`])
  assert.ok(failed((await graded()).rows).includes('dane tlsa_valid'))
  assert.match((await commands.run(['doctor', '--grade', 'no domain'])).stderr, /is not a domain name/)
})

const gradeOf = async (domain: string): Promise<Row[]> => {
  const { stdout } = await commands.run(['--json', 'doctor', '--grade', domain])
  return (JSON.parse(stdout) as { rows: Row[] }).rows
}

test('exchangers of others are not ours; a domain without any is asked for its MX record, and for nothing of it', async () => {
  const { dns } = postrider
  const ofExchanger = (rows: Row[]): Row[] =>
    rows.filter(({ category, test: name }) => /starttls|certificate|dane/.test(category) || name === 'mx')
  dns.set('elsewhere.test', 'MX', ['10 mx.host.test'])
  dns.set('mx.host.test', 'A', ['127.0.0.9'])
  const foreign = ofExchanger(await gradeOf('elsewhere.test'))
  assert.deepEqual(
    foreign.filter(({ result }) => result !== 'not_ours' && result !== 'not_asked'),
    [],
  )
  for (const { mend, result } of foreign) assert.match(mend ?? '', result === 'not_ours' ? /./ : /^$/)
  // Beside ours, the worse of both counts.
  dns.set('both.test', 'MX', [`10 ${HOST}`, '20 mx.host.test'])
  const both = ofExchanger(await gradeOf('both.test'))
  assert.equal(both.find(({ test: name }) => name === 'starttls')!.result, 'not_ours')
  dns.set('none.test', 'A', ['127.0.0.9'])
  const none = ofExchanger(await gradeOf('none.test'))
  assert.deepEqual(
    none.filter(({ result }) => result !== 'not_asked').map(({ category, mend }) => [category, mend]),
    [['ipv6', `Publish an MX record: "none.test. 3600 IN MX 10 ${HOST}."`]],
  )
  dns.set('null.test', 'MX', ['0 .'])
  assert.deepEqual(failed(ofExchanger(await gradeOf('null.test'))), [])
})

test('SPF: what counts is "all", in the record or where it leads by redirect=', async () => {
  const { dns } = postrider
  dns.set('_spf.strict.test', 'TXT', ['v=spf1 a:mx.test -all'])
  dns.set('_spf.open.test', 'TXT', ['v=spf1 a:mx.test ?all'])
  dns.set('loop.test', 'TXT', ['v=spf1 redirect=loop.test'])
  for (const [record, result] of [
    ['v=spf1 redirect=_spf.strict.test', 'pass'],
    ['v=spf1 REDIRECT=_spf.strict.test exp=why.test', 'pass'],
    ['v=spf1 a -all exp=why.test', 'pass'],
    ['v=spf1 redirect=_spf.open.test', 'fail'],
    ['v=spf1 ?all redirect=_spf.strict.test', 'fail'],
    ['v=spf1 redirect=loop.test', 'fail'],
    ['v=spf1 redirect=nowhere.test', 'fail'],
    ['v=spf1 a', 'fail'],
  ] as const) {
    dns.set('spf.test', 'TXT', [record])
    const row = (await gradeOf('spf.test')).find(({ test: name }) => name === 'spf_policy')
    assert.equal(row!.result, result, record)
  }
})
