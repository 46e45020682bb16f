"""
Alias of documented names; they live in ``uns.ports``.
"""

from uns.ports.replies import AckResponse, Projection, SendNotificationResponse, SimulationResponse
from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest

__all__ = ["AckResponse", "AutonomyContextRequest", "Projection", "SendNotificationRequest"]
__all__ += ["SendNotificationResponse", "SimulationResponse"]
