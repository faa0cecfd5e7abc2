/** Signatures of webhook deliveries, as their senders make them. */

export type HookKind = "github" | "slack" | "stripe" | "standard" | "bearer";

export interface TestDelivery {
  readonly id: string;
  readonly body: string;
  readonly atS: number;
}

const PREFIX = "whsec_";

/** Whether this browser can sign: it does so only on a page that it trusts. */
export function canSign(kind: HookKind): boolean {
  return kind === "bearer" || globalThis.crypto?.subtle !== undefined;
}

/** The headers that show that the sender knows the secret. */
export async function signedHeaders(
  kind: HookKind,
  secret: string,
  { id, body, atS }: TestDelivery,
): Promise<Record<string, string>> {
  switch (kind) {
    case "github":
      return {
        "x-github-event": "test",
        "x-github-delivery": id,
        "x-hub-signature-256": `sha256=${hex(await mac(bytesOf(secret), body))}`,
      };
    case "slack":
      return {
        "x-slack-request-timestamp": `${atS}`,
        "x-slack-signature": `v0=${hex(await mac(bytesOf(secret), `v0:${atS}:${body}`))}`,
      };
    case "stripe":
      return { "stripe-signature": `t=${atS},v1=${hex(await mac(bytesOf(secret), `${atS}.${body}`))}` };
    case "standard":
      return {
        "webhook-id": id,
        "webhook-timestamp": `${atS}`,
        "webhook-signature": `v1,${base64(await mac(standardKey(secret), `${id}.${atS}.${body}`))}`,
      };
    case "bearer":
      return { authorization: `Bearer ${secret}`, "idempotency-key": id };
  }
}

/** Standard Webhooks write their secret in base64, after a prefix. */
function standardKey(secret: string): Uint8Array<ArrayBuffer> {
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return bytesOf(secret);
  }
}

async function mac(key: Uint8Array<ArrayBuffer>, text: string): Promise<Uint8Array> {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, bytesOf(text)));
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
