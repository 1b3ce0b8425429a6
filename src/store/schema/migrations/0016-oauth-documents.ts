// OAuth clients whose client_id is the URL of their metadata document: the time until which the document read is valid.
export const oauthDocuments = `
alter table oauth_clients add column fresh_until integer;
`
