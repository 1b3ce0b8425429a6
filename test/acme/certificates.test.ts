// Certificates of the configuration that cannot be used: too weak, of another key, not a certificate, not readable.
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCertificate, type Certificate } from '../../src/base/certificate.ts'
import { parseConfig } from '../../src/base/config.ts'
import { silentLog, type LogFields } from '../../src/base/log.ts'
import { Certificates } from '../../src/acme/certificates.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

/** RSA of 1024 bits, until 2126. */
const WEAK: Certificate = {
  cert: `-----BEGIN CERTIFICATE-----
MIICDDCCAXWgAwIBAgIUC8iqKRDbYo7moDh0bIOwq89zUc0wDQYJKoZIhvcNAQEL
BQAwFzEVMBMGA1UEAwwMbXgud2Vhay50ZXN0MCAXDTI2MTEyMjE3MDQ0MloYDzIx
MjYxMDI5MTcwNDQyWjAXMRUwEwYDVQQDDAxteC53ZWFrLnRlc3QwgZ8wDQYJKoZI
hvcNAQEBBQADgY0AMIGJAoGBAKlGaJpWs9PnlNZOGnG3tUuPKHhElLspRLO6aQwf
GSV2xlQVmafAciKcVzYFw6fjzPZWPZZHIfo/gzRg281qquQzMc9yPRqYihgrzg3/
eC4Fe+IEOH2Bz9Y8dzlmKkgtywnqTHOTk4VgMyvV3/NhEsRyw2oTSytoP3yRxSmg
brbzAgMBAAGjUzBRMB0GA1UdDgQWBBTTM9CG9Vxanfm/SC+vMY2sxmUEaTAfBgNV
HSMEGDAWgBTTM9CG9Vxanfm/SC+vMY2sxmUEaTAPBgNVHRMBAf8EBTADAQH/MA0G
CSqGSIb3DQEBCwUAA4GBAFi/dRYJ9OwlwjdQ5ibMFSXeuXQgceGs2DzqsN4n/dX/
PwwHnHb0Ietot9fx4U6xZn7PaK+TPpECBQ2aC+gQWwj3eBt+fraKuDF7dyHSlOec
PoDWZScYbE2iJPGUnuY0MznWSev7atzJvm9y1QTZJA7tW/NU+YfLqRf6Q2eUs31c
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAKlGaJpWs9PnlNZO
GnG3tUuPKHhElLspRLO6aQwfGSV2xlQVmafAciKcVzYFw6fjzPZWPZZHIfo/gzRg
281qquQzMc9yPRqYihgrzg3/eC4Fe+IEOH2Bz9Y8dzlmKkgtywnqTHOTk4VgMyvV
3/NhEsRyw2oTSytoP3yRxSmgbrbzAgMBAAECgYA2qWjf5f2eARtb9M6vSB6ALtNn
uuW4ZoQr8Zc4ddZd9bPntS3wMMHqkUfMRyI+Vd568bBjlcbQE7BfuqNf+wEBt2CU
DJJ0FsDISX0vVWz4rDlvN6o/LbfsQ3CGwpWAxqwVghr7Eym5+eLtPoiCbe76j9Pg
l0CpgZ7cnrVuG2NJaQJBANBTNtS9TczJ//I45gINwtiAeni4EH3OrDQtzUX/TBZt
I7o4APyxBBuUH67REAA/wbxc/gesU/3AEA+1cYRd6LUCQQDQA2/rpi/Ba+PLiMiW
v5C4nJLyPpLtP+jNnvRz6+WNn+uOcH0D0SHwhunH1jpuldHxALJirTDhAOcctBoV
AjIHAkEAymPt4yS+zvR4miS5IMmpwJihY2K/cto05sSQpy5uB2Ok0CfUnaqEKR7w
4O/vMa6/U3asvVuohd/wOrK2RDjP+QJAXNhr6D6xKiBB+OMAxWiT7BLW9BFB+2t/
OegtLGCqgWBT/6vt4PpDr9xIFM5mHl346x1ogerT2lpQzdsFmUL1mQJAS3Q4u0jN
xAnLiBN0p8vpBTxTR5tY3Aeymqkfyh38XAoBh3JcMLmxtuk519PG38IhDkRhjhGr
TskPB3X9lq8t8A==
-----END PRIVATE KEY-----
`,
}

const folder = temporaryDirectory('certificates')
const files = { cert: join(folder, 'some.crt'), key: join(folder, 'some.key') }
const good = makeCertificate('mx.here.test', Date.now())

function put({ cert, key }: Certificate): void {
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
}

function certificateStore() {
  const errors: LogFields[] = []
  const certificates = new Certificates({
    clock: new ManualClock(),
    log: { ...silentLog, error: (event, fields) => void errors.push({ event, ...fields }) },
    config: parseConfig({ hostname: 'mx.here.test', data_dir: folder, tls: files }),
    certificateStore: undefined,
  })
  return { certificates, errors }
}

for (const [what, pair, why] of [
  ['too weak', WEAK, /the key is too weak/],
  ['of another key', { ...good, key: makeCertificate('mx.here.test', Date.now()).key }, /do not belong together/],
  ['nonsense', { cert: 'no certificate', key: 'no key' }, /cannot be used: \S/],
] as [string, Certificate, RegExp][])
  test(`reports a certificate that is ${what} with the files and the fix, and keeps the last good one`, () => {
    put(pair)
    const sentence = (thrown: Error): true => {
      assert.equal(thrown.name, 'OperatorError')
      assert.match(thrown.message, why)
      assert.match(thrown.message, /^[^\n]*; use a PEM certificate [^\n.]*\.$/)
      for (const name of ['"tls.cert"', files.cert, '"tls.key"', files.key])
        assert.ok(thrown.message.includes(name), thrown.message)
      return true
    }
    assert.throws(() => certificateStore().certificates.first('smtp'), sentence)
    put(good)
    const { certificates } = certificateStore()
    const shown = [certificates.first('smtp').cert]
    for (let n = 0; n < 2; n++) certificates.follow('smtp', ({ cert }) => shown.push(cert))
    put(pair)
    assert.throws(() => certificates.renew(), sentence)
    assert.deepEqual(shown, [good.cert])
    put(good)
    certificates.renew()
    assert.deepEqual(shown, [good.cert, good.cert, good.cert])
  })

test('logs an unreadable file once for all listeners', () => {
  put(good)
  rmSync(files.key)
  const { certificates, errors } = certificateStore()
  for (const door of ['https', 'smtp', 'smtp', 'smtp'] as const)
    assert.notEqual(certificates.first(door).cert, good.cert)
  assert.equal(errors.length, 1)
  assert.match(errors[0]!['error'] as string, /"tls\.key" .*some\.key\) cannot be read \(ENOENT\)/)
})
