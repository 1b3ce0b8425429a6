// `postrider grant …` next to a running server: lists the OAuth grants of users, and revokes them immediately.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { letIn } from '../../kit/oauth-client.ts'
import { startBeside } from '../../commands/beside.ts'

const { commands, postrider } = await startBeside()

test('grant list shows the user and the application, and grant revoke ends the access immediately', async () => {
  assert.deepEqual(await commands.json('grant', 'list'), [])
  assert.match((await commands.run(['grant', 'list'])).stdout, /^There are no OAuth grants\.$/m)
  const { access_token, client } = await letIn(postrider, postrider.user)
  await letIn(postrider, postrider.other)
  const ask = async (): Promise<number> =>
    (await postrider.raw('/mcp', { method: 'POST', headers: { authorization: `Bearer ${access_token}` }, body: '{}' }))
      .status
  assert.equal(await ask(), 415, 'the token is valid, the Content-Type is not')

  const [theirs, mine] = await commands.json('grant', 'list')
  assert.equal(theirs.user, postrider.other.email)
  assert.partialDeepStrictEqual(mine, {
    user: postrider.user.email,
    client_id: client.id,
    client_name: 'Agent',
    redirect_uri: 'http://127.0.0.1:1/callback',
    resource: `${postrider.config.http.public_url}/mcp`,
  })
  assert.match((await commands.run(['grant', 'list'])).stdout, /ID\s+USER\s+APPLICATION\s+REDIRECT URI\s+GRANTED/)

  assert.deepEqual(await commands.json('grant', 'revoke', mine.id), { id: mine.id, revoked: true })
  assert.equal(await ask(), 401)
  assert.equal((await commands.json('grant', 'list')).length, 1)
  for (const id of [mine.id, 'nothing'])
    assert.match(await commands.fails('grant', 'revoke', id), /no grant.*grant list/)
  await commands.misused('grant', 'revoke')
  await commands.misused('grant', 'list', 'more')
})
