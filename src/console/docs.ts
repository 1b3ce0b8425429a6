// The API reference: the OpenAPI document, drawn in the browser by Redoc, with this server's address in its examples.
// Public.
import type { Context } from 'hono'
import { html } from 'hono/html'
import { guard } from '../webui/frame.ts'

/** Redoc writes inline styles into the page, and makes its own worker for searches. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:; frame-ancestors 'none'; base-uri 'none'"

export function docsPage(context: Context, url: string): Response | Promise<Response> {
  guard(context, POLICY)
  return context.html(
    html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>API reference · Postrider</title>
          <link rel="stylesheet" href="/assets/docs.css" />
          <link rel="icon" href="data:," />
        </head>
        <body>
          <header>
            <a href="/">Back to the console</a> <span>API of ${url}</span>
            <a href="/api/v1/openapi.json">OpenAPI document</a>
          </header>
          <main id="reference" data-server="${url}">
            <noscript
              >The reference needs a script; <a href="/api/v1/openapi.json">the OpenAPI document</a> does not.</noscript
            >
          </main>
          <script src="/assets/docs.js"></script>
          <script type="module" src="/assets/docs-start.js"></script>
        </body>
      </html>`,
  )
}
