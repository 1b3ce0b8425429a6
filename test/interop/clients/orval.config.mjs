// orval with the address of the server from the document.
export default {
  api: {
    input: './openapi.json',
    output: { target: './gen/orval.ts', client: 'fetch', baseUrl: { getBaseUrlFromSpecification: true } },
  },
}
