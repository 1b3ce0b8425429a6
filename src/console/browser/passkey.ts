// Passkeys in the browser: gets a challenge from the server, lets the device sign it, and sends the signature back.

async function post(to: string, body: object): Promise<Record<string, string>> {
  const response = await fetch(to, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as Record<string, string>
  if (!response.ok) throw new Error(answer['error'] ?? 'The server did not answer.')
  return answer
}

async function register(form: HTMLFormElement): Promise<string> {
  const proof = form.dataset['proof']!
  const given = new FormData(form)
  const options = await post('/account/passkeys', { proof, old: given.get('old') ?? '' })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never)
  const made = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
  const name = given.get('passkey')
  const answer = await post('/account/passkeys', { proof, name, response: made.toJSON() })
  return answer['next'] ?? '/'
}

async function signIn(form: HTMLFormElement): Promise<string> {
  const options = await post('/sign-in/passkey', {})
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never)
  const given = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential
  const next = encodeURIComponent(form.dataset['next'] ?? '/')
  const answer = await post(`/sign-in/passkey?next=${next}`, { response: given.toJSON() })
  return answer['next'] ?? '/'
}

for (const form of document.querySelectorAll<HTMLFormElement>('[data-passkey]')) {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const said = form.querySelector('[data-said]')!
    said.textContent = ''
    const run = form.dataset['passkey'] === 'register' ? register : signIn
    void (async () => {
      try {
        location.assign(await run(form))
      } catch (thrown) {
        said.textContent = thrown instanceof Error ? thrown.message : 'That did not work.'
      }
    })()
  })
  // The form needs this script, so the styles show it only after this mark.
  form.dataset['ready'] = ''
}
