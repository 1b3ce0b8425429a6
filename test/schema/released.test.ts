// A migration that was released has run on the databases of others: it never changes again. A release adds its own to
// the list (CONTRIBUTING.md).
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { migrations } from '../../src/store/schema/migrations.ts'

/** The SHA-256 of each migration of a released version, in their order. */
const HASHES = `
b5f16442adca5c0cc14d38df45b15bd5ba98cc5574a207187500488540ff7950
30bf3526544c0d85d81b6eec2123e33995bc11b51ad3fe1e7314fee6d76ec40c
d7c4d16af6da43c0c2f5211754f8262ade9f6ae5d93a25173ec0f6eca163d831
c3512df35a3898e3c5289ac4741a6b369e4339532509e3a9a6750e1dda53714f
918dd757098d2195cffc8405721abd56d5b7d237d4bf75e52cc74d734211b2ed
5fe961ffeaa8954b47d926fb0215b6d501eb63a3d63dcb0f853f3fe6f6c4cbbe
d89466a03525feb2bc6d53e58d9acdfc6a9e09d2243a33aab0424fc04fbd9c02
1a9c8a2dd81964d16c92b989e9c5301d4dd20acb083693d995d9d38df9f34332
b2b29194573eb583547ad24ca7404328c7e7b1c3983591b98e10a79c2e587f9d
bf8152e94d7369d5f8897cfeab89a5cd76eba0aa0ee3e8b279ea44aca65bb1d5
42bfc17be9fa17377434c304ddc59904c7aecd80a79a2471be58aec012a1f6ca
a198fae1f422ea568c015bdc8af3cf7a7f4df3b0db58eaf32b0883599b5741cc
8a32e4c0a62568939351d4ace04fdb2c63df71eb68f8309992304b2b07471772
33fb164e573113afc2b8c1cc78e2391f413988251c04fcd9786a256b8fcc28b8
97601e346b68f99adcf8afe47587e6bbdd0d0bda8e1d364334604e976da4a062
6ac8fb96ff213a36b079bbdcbacab0ec4b279fe8271e7e7920e76ced7428a98d
1f3a25081a326966f3a9137c58ec39364cd75eada35e0312f23ae5d1ab59e5e9
e636d7e29a84140b2edc2876983c9a0bd7e313912c47bc4f8ec9d130a228991e
1dd9d56f0003a75d78ce4921c1d704a44d952ee57cbb8e3fd02320f693a904cb
`

test('released migrations are unchanged', () => {
  const released = HASHES.trim().split('\n')
  assert.equal(released.length, 19, '0.2.0 ended with schema 19')
  assert.deepEqual(
    migrations.slice(0, released.length).map((sql) => createHash('sha256').update(sql).digest('hex')),
    released,
  )
})
