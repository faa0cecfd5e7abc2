"""Sign-ins for models: subscriptions (ChatGPT, GitHub Copilot, Nous) in place of API keys."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="sign_ins",
    events="events:EVENTS",
    authorize="sign_ins:open_sign_ins",
    commands={"auth": "commands:auth_app"},
    doctor="doctor:check_sign_ins",
)
